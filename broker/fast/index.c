/* Hashes of keys, and entries of the index (engine/queues/index.py). */

#include "fast.h"

static int add_hash(uint32_t *hash, PyObject *key) {
    Py_ssize_t size;
    const char *letters = PyUnicode_AsUTF8AndSize(key, &size);
    if (letters != NULL) {
        const Bytes text = {(const byte *)letters, size};
        if (is_ascii(text)) {
            *hash = hash_on(*hash, text);
            return 1;
        }
    } else if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear(); /* half a pair of surrogates */
    } else {
        return 0;
    }
    PyObject *units = PyUnicode_AsEncodedString(key, "utf-16-be", "surrogatepass");
    Bytes raw;
    if (units == NULL || !bytes_of(units, &raw)) {
        Py_DecRef(units);
        return 0;
    }
    uint32_t value = *hash;
    for (Py_ssize_t at = 0; at + 1 < raw.size; at += 2) value = value * 31 + get16(raw.at + at);
    Py_DecRef(units);
    *hash = value;
    return 1;
}

static PyObject *number_of(uint32_t hash) { return PyLong_FromLong((long)absolute(hash)); }

PyDoc_STRVAR(hashes_doc, "Return the index hashes of a beginning with each of the keys behind it.");

static PyObject *hashes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column keys;
    uint32_t start = 0;
    if (!has_args("hashes", count, 2) || !PyUnicode_Check(args[0])) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "what keys begin with is text");
        return NULL;
    }
    if (!add_hash(&start, args[0]) || !column_of(args[1], -1, &keys)) return NULL;
    Py_ssize_t rows = rows_of(keys);
    PyObject *made = PyList_New(rows);
    if (made == NULL) return NULL;
    for (Py_ssize_t row = 0; row < rows; row++) {
        uint32_t hash = start;
        PyObject *key = cell(keys, row), *value;
        if (!PyUnicode_Check(key)) PyErr_SetString(PyExc_TypeError, "a key is text");
        else if (add_hash(&hash, key) && (value = number_of(hash)) != NULL) {
            PyList_SetItem(made, row, value);
            continue;
        }
        Py_DecRef(made);
        return NULL;
    }
    return made;
}

PyDoc_STRVAR(index_hash_doc, "Return the index hash of one text.");

static PyObject *index_hash(PyObject *module, PyObject *text) {
    uint32_t hash = 0;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a key is text");
        return NULL;
    }
    return add_hash(&hash, text) ? number_of(hash) : NULL;
}

PyDoc_STRVAR(
    put_entries_doc, "Put entries into the slots of an index: slots, hashes, positions, seconds, first number, a byte for each "
              "page, slots a page. Return the packed entries and how many slots were empty.");

static PyObject *put_entries(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Numbers keys = {0}, positions = {0};
    Py_buffer view = {0}, pages = {0};
    int32_t seconds, number, page_slots;
    PyObject *made = NULL, *done = NULL;
    if (!has_args("put_entries", count, 7) || !int32_of(args[3], &seconds) || !int32_of(args[4], &number) ||
        !int32_of(args[6], &page_slots))
        return NULL;
    if (!numbers_of(args[1], -1, &keys) || !numbers_of(args[2], keys.rows, &positions) ||
        PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE | PyBUF_FORMAT) < 0 ||
        PyObject_GetBuffer(args[5], &pages, PyBUF_WRITABLE) < 0)
        goto done;
    long fresh = 0;
    int32_t *slots = view.buf;
    uint32_t slot_count = (uint32_t)(view.len / 4);
    if (view.itemsize != 4 || view.format == NULL || strcmp(view.format, "i") || view.len < 4 ||
        view.len / 4 > INT32_MAX || keys.rows > INT32_MAX - (Py_ssize_t)number) {
        PyErr_SetString(PyExc_ValueError, "slots are an array of int, and have room");
        goto done;
    }
    if (page_slots <= 0 || pages.len <= (slot_count - 1) / (uint32_t)page_slots) {
        PyErr_SetString(PyExc_ValueError, "pages have slots, and a byte each");
        goto done;
    }
    if ((made = PyBytes_FromStringAndSize(NULL, 20 * keys.rows)) == NULL) goto done;
    /* All of it is looked at before a slot changes. Slots lie far from one another, so that all are fetched at once;
       which one it is stands meanwhile where the entry names the one before it. */
    byte *at = (byte *)PyBytes_AsString(made);
    for (Py_ssize_t row = 0; row < keys.rows; row++, at += 20) {
        int64_t hash, position;
        if (!number_at(&keys, row, &hash) || !number_at(&positions, row, &position)) goto done;
        if (hash < 0 || hash > INT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a hash is no negative number, and has 31 bits");
            goto done;
        }
        uint32_t slot = (uint32_t)hash % slot_count;
        FETCH(&slots[slot]);
        put32(put32(put64(put32(at, (uint32_t)hash), (uint64_t)position), (uint32_t)seconds), slot);
    }
    at = (byte *)PyBytes_AsString(made);
    for (Py_ssize_t row = 0; row < keys.rows; row++, at += 20) {
        uint32_t slot = get32(at + 16);
        int32_t previous = slots[slot];
        fresh += !previous;
        put32(at + 16, (uint32_t)previous);
        slots[slot] = number++;
        ((byte *)pages.buf)[slot / (uint32_t)page_slots] = 1;
    }
    done = Py_BuildValue("(Ol)", made, fresh);
done:
    Py_DecRef(made);
    release_numbers(&keys);
    release_numbers(&positions);
    PyBuffer_Release(&view);
    PyBuffer_Release(&pages);
    return done;
}

PyMethodDef index_functions[] = {FAST(hashes), ONE(index_hash), FAST(put_entries), NO_MORE};
