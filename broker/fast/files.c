/* Writing to many files without the interpreter. A thread that writes them one by one takes the interpreter from the
   loop, and gives it back, with each call to the system; here it does so once. */

#include "fast.h"

#ifdef __linux__

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    PyObject *path; /* as bytes that end with a zero */
    const char *name;
    Bytes data;
    int64_t at;
} Write;

/* Return 0, or the number of the error. */
static int write_one(Write write) {
    int descriptor, error = 0;
    do descriptor = open(write.name, O_RDWR | O_CLOEXEC);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) return errno;
    while (!error && write.data.size > 0) {
        ssize_t written = pwrite(descriptor, write.data.at, (size_t)write.data.size, (off_t)write.at);
        if (written > 0) {
            write.data.at += written;
            write.data.size -= written;
            write.at += written;
        } else if (!written || errno != EINTR) {
            error = written ? errno : EIO;
        }
    }
    while (!error && fdatasync(descriptor) < 0)
        if (errno != EINTR) error = errno;
    if (close(descriptor) < 0 && !error && errno != EINTR) error = errno;
    return error;
}

static Py_ssize_t read_writes(Column column, Py_ssize_t rows, Write *writes) {
    for (Py_ssize_t row = 0; row < rows; row++) {
        PyObject *said = cell(column, row);
        if (!PyTuple_Check(said) || PyTuple_Size(said) != 3) {
            PyErr_SetString(PyExc_TypeError, "a write is a path, a place and bytes");
            return row;
        }
        Write *write = writes + row;
        if (!int64_of(PyTuple_GetItem(said, 1), &write->at) || !bytes_of(PyTuple_GetItem(said, 2), &write->data) ||
            !PyUnicode_FSConverter(PyTuple_GetItem(said, 0), &write->path))
            return row;
        write->name = PyBytes_AsString(write->path);
    }
    return rows;
}

PyDoc_STRVAR(write_durably_doc, "write_durably(writes): OsFiles.write_durably (engine/disk.py)");
static PyObject *write_durably(PyObject *module, PyObject *said) {
    (void)module;
    Column column;
    if (!column_of(said, -1, &column)) return NULL;
    Py_ssize_t rows = rows_of(column), done = 0;
    int error = 0;
    Write *writes = calloc((size_t)rows + 1, sizeof *writes);
    if (writes == NULL) return PyErr_NoMemory();
    Py_ssize_t read = read_writes(column, rows, writes);
    if (read == rows) {
        Py_BEGIN_ALLOW_THREADS
        while (done < rows && !(error = write_one(writes[done]))) done++;
        Py_END_ALLOW_THREADS
    }
    if (error) {
        errno = error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, PyTuple_GetItem(cell(column, done), 0));
    }
    for (Py_ssize_t row = 0; row < read; row++) Py_DecRef(writes[row].path);
    free(writes);
    if (error || read < rows) return NULL;
    Py_RETURN_TRUE;
}

#else

PyDoc_STRVAR(write_durably_doc, "write_durably(writes): left to Python, which knows how other systems sync");
static PyObject *write_durably(PyObject *module, PyObject *said) {
    (void)module;
    (void)said;
    Py_RETURN_NONE;
}

#endif

PyMethodDef file_functions[] = {ONE(write_durably), NO_MORE};
