// What differs between the versions of CPython, and between its full and its limited API.
#ifndef DLX_EXT_COMPAT_H
#define DLX_EXT_COMPAT_H

// PyObject_VectorcallMethod is in the limited API from 3.12 on, but every CPython that this extension runs on has it.
// With the limited API of 3.11 it is found at run time.
typedef PyObject *(*VectorcallMethod)(PyObject *name, PyObject *const *args, size_t nargsf, PyObject *kwnames);
extern VectorcallMethod vectorcall_method;

#ifndef PY_VECTORCALL_ARGUMENTS_OFFSET
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#endif

#endif
