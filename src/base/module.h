/* module.h - what needs libraries that a machine may lack: a file of its own,
 * which is opened when somebody asks for it. */
#ifndef DSF_BASE_MODULE_H
#define DSF_BASE_MODULE_H

#include <stdbool.h>
#include <dsflow/error.h>

/* A module exports one structure, which begins with its `unsigned abi`. */
struct dsf_module {
    const char *file;     /* "dsflow-cuda.so" */
    const char *variable; /* of the environment: which file it is, or "no" */
    const char
        *lacking; /* what dsflow was built without where it is not there */
    const char *symbol;
    unsigned abi;
    bool shared; /* what its libraries open later needs their symbols */
};

/* That structure: of the file that the variable names, else of one beside a
 * program that was not installed, else of the one that was. It stays open.
 * NULL: there is none, and the message says why. */
const void *dsf_module_open(const struct dsf_module *m, struct dsflow_err *err);

#endif
