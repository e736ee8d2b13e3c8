/* libFuzzer's entry points: starts Python with the instrumented modules, then calls one target.
 *
 * BINLOG_FUZZ_TARGET names it: one of binlog_core._core's TARGETS, which are C functions, or of
 * fuzz/entry_points.py, which are Python functions of the bytes.
 */
#include <Python.h>
#include <stdint.h>

typedef int (*target_t)(const uint8_t *data, size_t size);

static target_t target;
static PyObject *function;

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
    PyObject *core = PyImport_ImportModule("binlog_core._core");
    if (!core) give_up("the instrumented modules cannot be imported");
    PyObject *targets = PyObject_GetAttrString(core, "TARGETS");
    PyObject *address = targets ? PyDict_GetItemString(targets, name) : NULL;
    if (address) {
        target = (target_t)(uintptr_t)PyLong_AsUnsignedLongLong(address);
    } else {
        PyObject *module = PyImport_ImportModule("entry_points");
        function = module ? PyObject_GetAttrString(module, name) : NULL;
        if (!function) give_up("no such target");
    }
    return 0;
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
