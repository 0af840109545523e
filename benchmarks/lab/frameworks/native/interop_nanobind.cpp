// A module in C++ that takes and makes tensors with nanobind, as a library that is bound with it does.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace nb = nanobind;

using Dtype = std::tuple<int, int, int>;

// Held keeps a tensor that a function got as its argument.
template <typename Array> struct Held {
    Array array;
    bool readonly;
};

template <typename Array> nb::list extents(const Held<Array> &h, bool strides) {
    nb::list list;
    for (size_t i = 0; i < h.array.ndim(); i++)
        list.append(strides ? h.array.stride(i) : (int64_t)h.array.shape(i));
    return list;
}

template <typename Array> void bind(nb::module_ &m, const char *name) {
    nb::class_<Held<Array>>(m, name)
        .def_prop_ro("address", [](const Held<Array> &h) { return (uintptr_t)h.array.data(); })
        .def_prop_ro("shape", [](const Held<Array> &h) { return extents(h, false); })
        .def_prop_ro("strides", [](const Held<Array> &h) { return extents(h, true); })
        .def_prop_ro("dtype", [](const Held<Array> &h) {
            auto d = h.array.dtype();
            return Dtype(d.code, d.bits, d.lanes);
        })
        .def_prop_ro("device", [](const Held<Array> &h) {
            return std::make_tuple(h.array.device_type(), h.array.device_id());
        })
        .def_ro("readonly", &Held<Array>::readonly);
}

// make returns a tensor of nanobind in the memory of a bytearray.
template <typename Array>
Array make(nb::bytearray memory, int64_t offset, std::vector<size_t> shape, std::vector<int64_t> strides, Dtype dtype) {
    nb::dlpack::dtype d;
    d.code = (uint8_t)std::get<0>(dtype);
    d.bits = (uint8_t)std::get<1>(dtype);
    d.lanes = (uint16_t)std::get<2>(dtype);
    return Array((char *)memory.data() + offset, shape.size(), shape.data(), memory, strides.data(), d,
                 nb::device::cpu::value, 0);
}

NB_MODULE(interop_nanobind, m) {
    using Plain = nb::ndarray<nb::array_api>;
    using ReadOnly = nb::ndarray<nb::array_api, nb::ro>;
    bind<nb::ndarray<>>(m, "Held");
    bind<nb::ndarray<nb::ro>>(m, "HeldReadOnly");
    m.def("take", [](nb::ndarray<> a) { return Held<nb::ndarray<>>{a, false}; });
    m.def("take", [](nb::ndarray<nb::ro> a) { return Held<nb::ndarray<nb::ro>>{a, true}; });
    m.def("take_noconvert", [](nb::ndarray<> a) { return Held<nb::ndarray<>>{a, false}; }, nb::arg().noconvert());
    m.def("take_noconvert", [](nb::ndarray<nb::ro> a) { return Held<nb::ndarray<nb::ro>>{a, true}; }, nb::arg().noconvert());
    m.def("make", &make<Plain>, nb::rv_policy::reference);
    m.def("make_ro", &make<ReadOnly>, nb::rv_policy::reference);
    // What a benchmark measures.
    m.def("touch", [](nb::ndarray<> a) { return (uintptr_t)a.data(); });
}
