/* libFuzzer's entry points: starts Python with the instrumented modules, then calls one target.
 *
 * BINLOG_FUZZ_TARGET names it, as module:target. A module has TARGETS, addresses of C functions, or else
 * Python functions of the bytes; such a one may have a mutator of its own, `mutate`: of the bytes, the most that
 * may be, and a seed, it makes other bytes, or None.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef int (*target_t)(const uint8_t *data, size_t size);

static target_t target;
static PyObject *function;
static PyObject *mutator;

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static void give_up(const char *why) {
    if (PyErr_Occurred()) PyErr_Print();
    fprintf(stderr, "%s\n", why);
    exit(2);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *python = getenv("BINLOG_FUZZ_PYTHON");
    const char *name = getenv("BINLOG_FUZZ_TARGET");
    if (!python || !name) give_up("BINLOG_FUZZ_PYTHON and BINLOG_FUZZ_TARGET must be set");
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    if (PyStatus_Exception(PyConfig_SetBytesString(&config, &config.program_name, python))
        || PyStatus_Exception(Py_InitializeFromConfig(&config)))
        give_up("Python does not start");
    PyConfig_Clear(&config);
    char name_of_module[64];
    const char *colon = strchr(name, ':');
    if (!colon || snprintf(name_of_module, sizeof name_of_module, "%.*s", (int)(colon - name), name) >= 64)
        give_up("BINLOG_FUZZ_TARGET is module:target");
    PyObject *module = PyImport_ImportModule(name_of_module);
    if (!module) give_up("the module of the target cannot be imported");
    PyObject *targets = PyObject_GetAttrString(module, "TARGETS");
    PyObject *address = targets ? PyDict_GetItemString(targets, colon + 1) : NULL;
    PyErr_Clear();
    if (address)
        target = (target_t)(uintptr_t)PyLong_AsUnsignedLongLong(address);
    else if (!(function = PyObject_GetAttrString(module, colon + 1)))
        give_up("no such target");
    mutator = function ? PyObject_GetAttrString(function, "mutate") : NULL;
    PyErr_Clear();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    PyObject *made;
    if (!mutator || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
    made = PyObject_CallFunction(mutator, "y#nI", (const char *)data, (Py_ssize_t)size, (Py_ssize_t)max_size, seed);
    if (!made) {
        PyErr_Print();
        abort();
    }
    if (PyBytes_Check(made) && (size_t)PyBytes_GET_SIZE(made) <= max_size) {
        size = (size_t)PyBytes_GET_SIZE(made);
        memcpy(data, PyBytes_AS_STRING(made), size);
    } else
        size = LLVMFuzzerMutate(data, size, max_size);
    Py_DECREF(made);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (target) return target(data, size);
    PyObject *given = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    PyObject *result = given ? PyObject_CallOneArg(function, given) : NULL;
    if (!result) {
        PyErr_Print();
        abort();
    }
    Py_DECREF(result);
    Py_DECREF(given);
    return 0;
}
