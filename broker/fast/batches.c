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

/* One of a batch that was read, and what the index finds it by. */
typedef struct {
    Item item;
    Bytes unique_key, tags, keys;
} Read;

/* A batch that was read: all in `each` points into the body, which is kept meanwhile. */
typedef struct {
    PyObject *body;
    Read *each;
    Py_ssize_t rows, room, hashes;
} Batch;

static const char batch_name[] = "escapement_mq_fast.batch";

static void free_batch(Batch *batch) {
    Py_DecRef(batch->body);
    PyMem_Free(batch->each);
    PyMem_Free(batch);
}

static void free_capsule(PyObject *capsule) { free_batch(PyCapsule_GetPointer(capsule, batch_name)); }

/* Make room for one more; return whether there is. */
static int has_room(Batch *batch) {
    if (batch->rows < batch->room) return 1;
    Py_ssize_t room = batch->room ? batch->room * 2 : 64;
    Read *each = PyMem_Realloc(batch->each, (size_t)room * sizeof *each);
    if (each == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    batch->each = each;
    batch->room = room;
    return 1;
}

/* Read the message that begins here; return whether it is right, and its properties are usual. */
static int read_usual(const byte *at, const byte *end, Read *read) {
    Said said;
    if (!item_at(at, end, &read->item) || read->item.properties.size + read->item.is_open > MOST_PROPERTIES ||
        !usual_properties(read->item.properties, read->item.is_open, &said) || said.names_half || said.moment.at != NULL)
        return 0;
    read->unique_key = said.unique_key;
    read->tags = said.tags;
    read->keys = said.keys;
    return 1;
}

PyDoc_STRVAR(
    batch_extremes_doc,
    "Return of the messages of a batch, as they are stored: how many, bytes of all bodies and properties, those of the "
    "first, the longest body, the longest properties, the lowest and the highest flag, and what `batch_records` takes. "
    "None if anything about one is not as usual, or they have more keys than there may be.");

static PyObject *batch_extremes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes all, word;
    int32_t most, most_keys, low = INT32_MAX, high = INT32_MIN, keys = 0;
    if (!has_args("batch_extremes", count, 3) || !bytes_of(args[0], &all) || !int32_of(args[1], &most) ||
        !int32_of(args[2], &most_keys))
        return NULL;
    Batch *batch = PyMem_Calloc(1, sizeof *batch);
    if (batch == NULL) return PyErr_NoMemory();
    Py_IncRef(batch->body = args[0]);
    Py_ssize_t total = 0, first = 0, body = 0, properties = 0;
    for (const byte *at = all.at, *end = at + all.size; at < end;) {
        if (batch->rows >= most || !has_room(batch)) goto refuse;
        Read *read = &batch->each[batch->rows++];
        if (!read_usual(at, end, read)) goto refuse;
        at += read->item.size;
        for (Bytes said = read->keys; next_word(&said, &word); batch->hashes++)
            if (keys++ >= most_keys) goto refuse;
        batch->hashes += (read->unique_key.size > 0) + (read->tags.size > 0);
        Py_ssize_t stored = read->item.properties.size + read->item.is_open;
        total += read->item.body.size + stored;
        if (batch->rows == 1) first = total;
        if (read->item.body.size > body) body = read->item.body.size;
        if (stored > properties) properties = stored;
        if (read->item.flag < low) low = read->item.flag;
        if (read->item.flag > high) high = read->item.flag;
    }
    PyObject *capsule = batch->rows ? PyCapsule_New(batch, batch_name, free_capsule) : NULL;
    if (capsule == NULL) goto refuse;
    return Py_BuildValue(
        "(nnnnniiN)", batch->rows, total, first, body, properties, (int)low, (int)high, capsule);
refuse:
    free_batch(batch);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Where the index finds records: columns of 64 bits. */
typedef struct {
    int64_t *hash, *place;
} Keys;

static void add_key(Keys *keys, uint32_t hash, int64_t position) {
    *keys->hash++ = absolute(hash);
    *keys->place++ = position;
}

/* What the index finds a message by: hashes, and the position once for each; as append._index does. */
static void add_keys(Keys *keys, const Read *read, uint32_t topic, int64_t position) {
    Bytes said = read->keys, word;
    if (read->unique_key.size) add_key(keys, hash_on(topic, read->unique_key), position);
    while (next_word(&said, &word)) add_key(keys, hash_on(topic, word), position);
    const Bytes mark = {(const byte *)"T#", 2};
    if (read->tags.size) add_key(keys, hash_on(hash_on(topic, mark), read->tags), position);
}

PyDoc_STRVAR(
    batch_records_doc,
    "Return what becomes of a batch: what `batch_extremes` read of it, name of the topic, queue id, first offset, first "
    "position, the 48 bytes that are the same in all. Its records in one piece, entries of the queue, sizes, and columns "
    "of 64 bits each: positions, and for the index hashes and a position for each.");

static PyObject *batch_records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes name, same;
    int32_t queue_id;
    int64_t offset, position;
    if (!has_args("batch_records", count, 6)) return NULL;
    const Batch *batch = PyCapsule_GetPointer(args[0], batch_name);
    if (batch == NULL || !bytes_of(args[1], &name) || !int32_of(args[2], &queue_id) || !int64_of(args[3], &offset) ||
        !int64_of(args[4], &position) || !bytes_of(args[5], &same))
        return NULL;
    if (name.size > 127 || same.size != 48 || !is_ascii(name)) {
        PyErr_SetString(PyExc_ValueError, "the name of the topic is not short and ASCII, or what is the same has not 48 bytes");
        return NULL;
    }
    const Read *read = batch->each, *end = read + batch->rows;
    Py_ssize_t total = 0;
    for (; read < end; read++)
        total += record_bytes(name, read->item.body, read->item.properties, 2 * IPV4) + read->item.is_open;
    PyObject *records = PyBytes_FromStringAndSize(NULL, total), *sizes = PyList_New(batch->rows), *bytes = NULL;
    PyObject *entries = PyBytes_FromStringAndSize(NULL, 20 * batch->rows);
    PyObject *positions = PyBytes_FromStringAndSize(NULL, 8 * batch->rows);
    PyObject *hashes = PyBytes_FromStringAndSize(NULL, 8 * batch->hashes);
    PyObject *places = PyBytes_FromStringAndSize(NULL, 8 * batch->hashes);
    if (records == NULL || entries == NULL || positions == NULL || sizes == NULL || hashes == NULL || places == NULL)
        goto fail;
    byte *record = (byte *)PyBytes_AsString(records), *entry = (byte *)PyBytes_AsString(entries);
    int64_t *place = (int64_t *)PyBytes_AsString(positions);
    Keys keys = {(int64_t *)PyBytes_AsString(hashes), (int64_t *)PyBytes_AsString(places)};
    const uint32_t topic = hash_on(hash_on(0, name), (Bytes){(const byte *)"#", 1});
    int32_t before = 0;
    for (read = batch->each; read < end; read++, offset++) {
        const Item *item = &read->item;
        int32_t size = (int32_t)(record_bytes(name, item->body, item->properties, 2 * IPV4) + item->is_open);
        Row made = {
            name, item->body, item->properties, same.at, offset, position, size, queue_id, item->flag, item->is_open};
        record = put_row(record, &made);
        entry = put_entry(entry, position, size, (int32_t)hash_on(0, read->tags));
        /* most are as long as the one before: one number for all of them */
        if (size == before) Py_IncRef(bytes);
        else if ((bytes = PyLong_FromLong(before = size)) == NULL) goto fail;
        PyList_SetItem(sizes, read - batch->each, bytes);
        *place++ = position;
        add_keys(&keys, read, topic, position);
        position += size;
    }
    return Py_BuildValue("(NNNNNN)", records, entries, sizes, positions, hashes, places);
fail:
    Py_DecRef(records);
    Py_DecRef(entries);
    Py_DecRef(sizes);
    Py_DecRef(positions);
    Py_DecRef(hashes);
    Py_DecRef(places);
    return NULL;
}

PyDoc_STRVAR(offset_message_ids_doc, "Return the ids of records of one host, by their positions, joined by commas.");

static PyObject *offset_message_ids(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes host;
    Numbers positions;
    if (!has_args("offset_message_ids", count, 2) || !bytes_of(args[0], &host) || !numbers_of(args[1], -1, &positions))
        return NULL;
    Py_ssize_t rows = positions.rows, letters = 2 * host.size;
    PyObject *text = NULL;
    byte *made = PyMem_Malloc((size_t)(rows * (letters + 17)) + 1), *at = made;
    if (made == NULL) PyErr_NoMemory();
    for (Py_ssize_t row = 0; made != NULL && row < rows; row++) {
        int64_t position;
        byte eight[8];
        if (!number_at(&positions, row, &position)) goto done;
        put64(eight, (uint64_t)position);
        at = row ? put(at, made, (size_t)letters) : put_hex(at, host.at, host.size);
        at = put_hex(at, eight, 8);
        *at++ = ',';
    }
    if (made != NULL) text = PyUnicode_FromStringAndSize((const char *)made, rows ? at - made - 1 : 0);
done:
    PyMem_Free(made);
    release_numbers(&positions);
    return text;
}

PyMethodDef batch_functions[] = {
    FAST(batch_extremes), FAST(batch_records), FAST(offset_message_ids), FAST(split_batch), NO_MORE,
};
