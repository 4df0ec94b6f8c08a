/* Messages of a batch (rocketmq/sends.py, engine/log/append.py).

    one of them: | size 4 | magic 4 | body crc 4 | flag 4 | body length 4 | body | properties length 2 | properties | */

#include "fast.h"

enum { BEFORE_BODY = 20, BEFORE_PROPERTIES = 2 };

typedef struct {
    Bytes body, properties;
    Py_ssize_t size;
    int32_t flag;
    int is_open; /* the properties have no last separator */
} Item;

/* Read the message that begins here; return whether it is right. */
static int item_at(const byte *at, const byte *end, Item *item) {
    if (end - at < BEFORE_BODY) return 0;
    int64_t size = get32(at), length = get32(at + 16);
    if (size > end - at || BEFORE_BODY + length + BEFORE_PROPERTIES > size) return 0;
    const byte *properties = at + BEFORE_BODY + length + BEFORE_PROPERTIES;
    int64_t properties_size = get16(properties - BEFORE_PROPERTIES);
    if (BEFORE_BODY + length + BEFORE_PROPERTIES + properties_size != size) return 0;
    item->body = (Bytes){at + BEFORE_BODY, (Py_ssize_t)length};
    item->properties = (Bytes){properties, (Py_ssize_t)properties_size};
    item->size = (Py_ssize_t)size;
    item->flag = (int32_t)get32(at + 12);
    item->is_open = properties_size && properties[properties_size - 1] != 2;
    return 1;
}

PyDoc_STRVAR(split_batch_doc, "Return the messages of a batch as (body, properties, flag); None if it is not right.");

static PyObject *split_batch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes batch;
    int32_t most;
    if (!has_args("split_batch", count, 2) || !bytes_of(args[0], &batch) || !int32_of(args[1], &most)) return NULL;
    PyObject *made = PyList_New(0);
    if (made == NULL) return NULL;
    Item item;
    for (const byte *at = batch.at, *end = at + batch.size; at < end; at += item.size) {
        if (PyList_Size(made) >= most || !item_at(at, end, &item)) goto refuse;
        PyObject *stored = PyBytes_FromStringAndSize(NULL, item.properties.size + item.is_open);
        if (stored == NULL) goto fail;
        byte *copy = put((byte *)PyBytes_AsString(stored), item.properties.at, (size_t)item.properties.size);
        if (item.is_open) *copy = 2;
        PyObject *row = Py_BuildValue("(y#Ni)", (const char *)item.body.at, item.body.size, stored, (int)item.flag);
        if (row == NULL) goto fail;
        int failed = PyList_Append(made, row);
        Py_DecRef(row);
        if (failed) goto fail;
    }
    if (PyList_Size(made)) return made;
refuse:
    Py_DecRef(made);
    Py_RETURN_NONE;
fail:
    Py_DecRef(made);
    return NULL;
}

/* Read the message that begins here; return whether it is right, and its properties are usual. */
static int usual_item_at(const byte *at, const byte *end, Item *item, Said *said) {
    return item_at(at, end, item) && item->properties.size + item->is_open <= MOST_PROPERTIES &&
           usual_properties(item->properties, item->is_open, said) && !said->names_half && said->moment.at == NULL;
}

static int parts_words(byte letter) { return (letter >= 9 && letter <= 13) || (letter >= 28 && letter <= 32); }

/* Take the next word of some keys, as str.split() does; return whether there is one. */
static int next_word(Bytes *keys, Bytes *word) {
    const byte *at = keys->at, *end = at + keys->size;
    while (at < end && parts_words(*at)) at++;
    *word = (Bytes){at, 0};
    while (at < end && !parts_words(*at)) at++;
    word->size = at - word->at;
    *keys = (Bytes){at, end - at};
    return word->size > 0;
}

PyDoc_STRVAR(
    batch_extremes_doc,
    "Return of the messages of a batch, as they are stored: how many, bytes of all bodies and properties, those of the "
    "first, the longest body, the longest properties, the lowest and the highest flag. None if anything about one is not "
    "as usual, or they have more keys than there may be.");

static PyObject *batch_extremes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes batch, word;
    int32_t most, most_keys, low = INT32_MAX, high = INT32_MIN, rows = 0, keys = 0;
    if (!has_args("batch_extremes", count, 3) || !bytes_of(args[0], &batch) || !int32_of(args[1], &most) ||
        !int32_of(args[2], &most_keys))
        return NULL;
    Py_ssize_t total = 0, first = 0, body = 0, properties = 0;
    Item item;
    Said said;
    for (const byte *at = batch.at, *end = at + batch.size; at < end; at += item.size) {
        if (rows++ >= most || !usual_item_at(at, end, &item, &said)) Py_RETURN_NONE;
        while (next_word(&said.keys, &word))
            if (keys++ >= most_keys) Py_RETURN_NONE;
        Py_ssize_t stored = item.properties.size + item.is_open;
        total += item.body.size + stored;
        if (rows == 1) first = total;
        if (item.body.size > body) body = item.body.size;
        if (stored > properties) properties = stored;
        if (item.flag < low) low = item.flag;
        if (item.flag > high) high = item.flag;
    }
    if (!rows) Py_RETURN_NONE;
    return Py_BuildValue("(innnnii)", (int)rows, total, first, body, properties, (int)low, (int)high);
}

static int add_hash(uint32_t hash, PyObject *position, PyObject *hashes, PyObject *places) {
    PyObject *value = absolute(hash);
    int failed = value == NULL || PyList_Append(hashes, value) < 0 || PyList_Append(places, position) < 0;
    Py_DecRef(value);
    return !failed;
}

/* What the index finds a message by: hashes, and the position once for each; as append._index does. */
static int add_hashes(Said said, uint32_t topic, PyObject *position, PyObject *hashes, PyObject *places) {
    Bytes word;
    if (said.unique_key.size && !add_hash(hash_on(topic, said.unique_key), position, hashes, places)) return 0;
    while (next_word(&said.keys, &word))
        if (!add_hash(hash_on(topic, word), position, hashes, places)) return 0;
    const Bytes mark = {(const byte *)"T#", 2};
    return !said.tags.size || add_hash(hash_on(hash_on(topic, mark), said.tags), position, hashes, places);
}

PyDoc_STRVAR(
    batch_records_doc,
    "Return what becomes of a batch: body, name of the topic, queue id, first offset, first position, the 48 bytes that "
    "are the same in all. Its records in one piece, entries of the queue, positions, sizes, and for the index hashes and "
    "a position for each; None if anything about it is not as usual.");

static PyObject *batch_records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes batch, name, same;
    int32_t queue_id;
    int64_t offset, position;
    if (!has_args("batch_records", count, 6) || !bytes_of(args[0], &batch) || !bytes_of(args[1], &name) ||
        !int32_of(args[2], &queue_id) || !int64_of(args[3], &offset) || !int64_of(args[4], &position) ||
        !bytes_of(args[5], &same))
        return NULL;
    if (name.size > 127 || same.size != 48 || !is_ascii(name)) Py_RETURN_NONE;
    Py_ssize_t total = 0, rows = 0;
    Item item;
    Said said;
    for (const byte *at = batch.at, *end = at + batch.size; at < end; at += item.size, rows++) {
        if (!item_at(at, end, &item)) Py_RETURN_NONE;
        total += record_bytes(name, item.body, item.properties, 2 * IPV4) + item.is_open;
    }
    PyObject *records = PyBytes_FromStringAndSize(NULL, total), *entries = PyBytes_FromStringAndSize(NULL, 20 * rows);
    PyObject *lists[4] = {PyList_New(rows), PyList_New(rows), PyList_New(0), PyList_New(0)};
    PyObject *positions = lists[0], *sizes = lists[1], *hashes = lists[2], *places = lists[3];
    if (records == NULL || entries == NULL || positions == NULL || sizes == NULL || hashes == NULL || places == NULL)
        goto fail;
    byte *record = (byte *)PyBytes_AsString(records), *entry = (byte *)PyBytes_AsString(entries);
    const uint32_t topic = hash_on(hash_on(0, name), (Bytes){(const byte *)"#", 1});
    const byte *at = batch.at, *end = at + batch.size;
    for (Py_ssize_t row = 0; row < rows; row++, at += item.size, offset++) {
        if (!usual_item_at(at, end, &item, &said)) goto fail;
        int32_t size = (int32_t)(record_bytes(name, item.body, item.properties, 2 * IPV4) + item.is_open);
        Row made = {name, item.body, item.properties, same.at, offset, position, size, queue_id, item.flag, item.is_open};
        record = put_row(record, &made);
        entry = put_entry(entry, position, size, (int32_t)hash_on(0, said.tags));
        PyObject *here = PyLong_FromLongLong(position), *bytes = PyLong_FromLong(size);
        if (here == NULL || bytes == NULL) {
            Py_DecRef(here);
            Py_DecRef(bytes);
            goto fail;
        }
        PyList_SetItem(positions, row, here);
        PyList_SetItem(sizes, row, bytes);
        if (!add_hashes(said, topic, here, hashes, places)) goto fail;
        position += size;
    }
    return Py_BuildValue("(NNNNNN)", records, entries, positions, sizes, hashes, places);
fail:
    Py_DecRef(records);
    Py_DecRef(entries);
    for (int list = 0; list < 4; list++) Py_DecRef(lists[list]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(offset_message_ids_doc, "Return the ids of records of one host, by their positions, joined by commas.");

static PyObject *offset_message_ids(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes host;
    Column positions;
    if (!has_args("offset_message_ids", count, 2) || !bytes_of(args[0], &host) || !column_of(args[1], -1, &positions))
        return NULL;
    Py_ssize_t rows = rows_of(positions), letters = 2 * (host.size + 8) + 1;
    if (!rows) return PyUnicode_FromString("");
    byte *made = PyMem_Malloc((size_t)(rows * letters)), *at = made;
    if (made == NULL) return PyErr_NoMemory();
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t position;
        byte eight[8];
        if (!int64_of(cell(positions, row), &position)) {
            PyMem_Free(made);
            return NULL;
        }
        put64(eight, (uint64_t)position);
        at = put_hex(put_hex(at, host.at, host.size), eight, 8);
        *at++ = ',';
    }
    PyObject *text = PyUnicode_FromStringAndSize((const char *)made, rows * letters - 1);
    PyMem_Free(made);
    return text;
}

PyMethodDef batch_functions[] = {
    FAST(batch_extremes), FAST(batch_records), FAST(offset_message_ids), FAST(split_batch), NO_MORE,
};
