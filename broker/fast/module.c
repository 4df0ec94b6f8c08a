/* The module: what its functions are for stands beside each. */

#include "fast.h"

/* Changes whenever a function takes or returns something else; broker/rocketmq/compiled.py asks for this number. */
#define INTERFACE 10

static int prepare(PyObject *module) {
    PyMethodDef *tables[] = {
        batch_functions, file_functions,   frame_functions, index_functions,
        property_functions, record_functions, run_functions, timer_functions,
    };
    make_crc_tables();
    for (size_t at = 0; at < sizeof tables / sizeof *tables; at++)
        if (PyModule_AddFunctions(module, tables[at]) < 0) return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots_of_module[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "escapement_mq_fast", "Compiled twins of some functions of escapement-mq.", 0, NULL,
    slots_of_module, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_escapement_mq_fast(void) { return PyModuleDef_Init(&definition); }
