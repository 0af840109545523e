// What tvm-ffi's test of PyTorch's exchange table uses of PyTorch's header, for tensors of dlx.
#pragma once
#include <Python.h>
#include <dlpack/dlpack.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <utility>

template <typename... Parts> std::string joined(const Parts &...parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

#define TORCH_CHECK(condition, ...)                                                                                    \
    if (!(condition))                                                                                                  \
    throw std::runtime_error(joined(__VA_ARGS__))

namespace at {
constexpr const char *kFloat = "float32";

// Tensor owns a reference to a dlx.Tensor.
class Tensor {
  public:
    explicit Tensor(PyObject *object) : object(object) { Py_INCREF(object); }
    Tensor(const Tensor &other) : Tensor(other.object) {}
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor() { Py_DECREF(object); }

    int64_t dim() const { return PyObject_Length(attribute("shape").object); }
    int64_t size(int64_t axis) const {
        Tensor shape = attribute("shape");
        return PyLong_AsLongLong(PyTuple_GetItem(shape.object, axis));
    }
    std::string scalar_type() const {
        Tensor dtype = attribute("dtype");
        Tensor text = owned(PyObject_Str(dtype.object));
        return PyUnicode_AsUTF8AndSize(text.object, nullptr);
    }

    PyObject *object;

  private:
    static Tensor owned(PyObject *object) {
        if (object == nullptr)
            throw std::runtime_error("an exception of Python");
        Tensor result(object);
        Py_DECREF(object);
        return result;
    }
    Tensor attribute(const char *name) const { return owned(PyObject_GetAttrString(object, name)); }
};
} // namespace at

inline PyObject *THPVariable_Wrap(const at::Tensor &t) {
    Py_INCREF(t.object);
    return t.object;
}
inline at::Tensor THPVariable_Unpack(PyObject *object) { return at::Tensor(object); }
inline bool THPVariable_Check(PyObject *object) {
    return std::string(Py_TYPE(object)->tp_name).find("dlx") != std::string::npos;
}
