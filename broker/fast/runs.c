/* Runs: records of timers that are encoded for where they belong (engine/timer/encoding.py), and get place, time and
   checksum when they are appended (engine/log/append.py). Columns are arrays of Python. */

#include "fast.h"

#include <stdio.h>

enum {
    STORE_HOST_AT = 64, BODY_AT = 88, OWN_TOPIC_BYTES = 20, SHORT_HEAD = 128, MOST_STORED = 32767, GROUP_FIELDS = 3,
    ENTRY_FIELDS = 4, ENTRY_BYTES = 20,
};

static const char own_topic[] = "\x13rmq_sys_wheel_timer", where_mark[] = "\x02REAL_TOPIC\x01", no_digits[] = "0000000000\x02";

/* A timer as it is parked, and what is put in its place; all points into what was read. */
typedef struct {
    const byte *record;
    Bytes properties, head, unique_key, tags, keys;
    int64_t due_ms, offset, position;
    Py_ssize_t before; /* so much of the record stays as it is */
    int32_t group, queue_id, source_size;
    char source[36];
} Due;

/* Tell whether a record is whole, stands in its place, has a checksum that holds, and short addresses. */
static int is_as_said(Bytes record, const Due *due) {
    byte check[CRC_BYTES];
    if (record.size < LEAST_RECORD + CRC_BYTES || get32(record.at) != (uint32_t)record.size ||
        (get32(record.at + 4) != MAGIC_V1 && get32(record.at + 4) != MAGIC_V2) || get64(record.at + 20) != due->offset ||
        get64(record.at + 28) != due->position || get32(record.at + 36) & (BORN_IPV6 | STORE_IPV6))
        return 0;
    put_crc(check, crc32_of(record.at, (size_t)(record.size - CRC_BYTES)));
    return !memcmp(record.at + record.size - CRC_BYTES, check, CRC_BYTES);
}

/* What the index finds a message by, of properties one after the other; the last of each name counts. */
static void read_keys(Due *due) {
    const byte *at = due->properties.at, *end = at + due->properties.size;
    while (at < end) {
        const byte *stop = memchr(at, 2, (size_t)(end - at));
        if (stop == NULL) stop = end;
        if (begins(at, stop - at, "UNIQ_KEY\x01")) due->unique_key = (Bytes){at + 9, stop - at - 9};
        else if (begins(at, stop - at, "TAGS\x01")) due->tags = (Bytes){at + 5, stop - at - 5};
        else if (begins(at, stop - at, "KEYS\x01")) due->keys = (Bytes){at + 5, stop - at - 5};
        at = stop + 1;
    }
}

static Bytes topic_of(const Due *due) {
    Py_ssize_t before = due->head.size > SHORT_HEAD ? 2 : 1;
    return (Bytes){due->head.at + before, due->head.size - before};
}

/* Find out where a timer goes: `where` is what its record says of that. 1, 0 with an error, -1 if it is not known. */
static int group_of(PyObject *groups, Bytes where, Due *due) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)where.at, where.size);
    PyObject *group = key == NULL ? NULL : PyDict_GetItemWithError(groups, key);
    Py_DecRef(key);
    if (group == NULL) return PyErr_Occurred() ? 0 : -1;
    if (!PyTuple_Check(group) || PyTuple_Size(group) < GROUP_FIELDS) {
        PyErr_SetString(PyExc_TypeError, "a group is a tuple of three and more");
        return 0;
    }
    if (!int32_of(PyTuple_GetItem(group, 0), &due->group) || !bytes_of(PyTuple_GetItem(group, 1), &due->head) ||
        !int32_of(PyTuple_GetItem(group, 2), &due->queue_id))
        return 0;
    if (due->head.size && due->group >= 0 && due->group <= UINT16_MAX) return 1;
    PyErr_SetString(PyExc_ValueError, "a group has a number of 16 bits, and a topic");
    return 0;
}

/* Read one timer out of what stands from `start` on. 1, 0 with an error, -1 if it is not as usual. */
static int due_of(Bytes data, int64_t start, PyObject *entry, PyObject *groups, Due *due) {
    int32_t size;
    char last[40];
    memset(due, 0, sizeof *due);
    if (!PyTuple_Check(entry) || PyTuple_Size(entry) < ENTRY_FIELDS) {
        PyErr_SetString(PyExc_TypeError, "an entry is a tuple of four");
        return 0;
    }
    if (!int64_of(PyTuple_GetItem(entry, 0), &due->due_ms) || !int64_of(PyTuple_GetItem(entry, 1), &due->offset) ||
        !int64_of(PyTuple_GetItem(entry, 2), &due->position) || !int32_of(PyTuple_GetItem(entry, 3), &size))
        return 0;
    if (start < 0 || due->position < start || size < 0 || due->position - start > data.size - size) return -1;
    const Bytes record = {data.at + (due->position - start), size};
    if (!is_as_said(record, due)) return -1;
    const byte *check = record.at + size - CRC_BYTES, *topic = record.at + BODY_AT;
    uint32_t body_size = get32(topic - 4);
    if (body_size > (uint32_t)size || check - topic < (int64_t)body_size + OWN_TOPIC_BYTES + 2) return -1;
    topic += body_size;
    int last_size = snprintf(last, sizeof last, "\x02" "ESC_DUE_MS\x01%lld\x02", (long long)due->due_ms);
    const byte *when = check - last_size, *where = when - 1;
    if (memcmp(topic, own_topic, OWN_TOPIC_BYTES) || when <= topic || memcmp(when, last, (size_t)last_size)) return -1;
    while (where >= topic && !begins(where, when - where, where_mark)) where--;
    if (where < topic) return -1;
    due->record = record.at;
    due->before = topic - record.at;
    due->properties = (Bytes){topic + OWN_TOPIC_BYTES + 2, check - topic - OWN_TOPIC_BYTES - 2};
    due->source_size = snprintf(due->source, sizeof due->source, "ESC_SOURCE\x01%lld\x02", (long long)due->position);
    if (due->properties.size + due->source_size + CRC_BYTES > MOST_STORED) return -1;
    read_keys(due);
    if (!is_ascii(due->unique_key) || !is_ascii(due->tags) || !is_ascii(due->keys)) return -1;
    int found = group_of(groups, (Bytes){where, when - where}, due);
    return found > 0 && !is_ascii(topic_of(due)) ? -1 : found;
}

static Py_ssize_t encoded_bytes(const Due *due) {
    return due->before + due->head.size + 2 + due->properties.size + due->source_size + CRC_BYTES;
}

static Py_ssize_t hashes_of(const Due *due) {
    Py_ssize_t found = (due->unique_key.size > 0) + (due->tags.size > 0);
    Bytes said = due->keys, word;
    while (next_word(&said, &word)) found++;
    return found;
}

/* The record but for place, time and checksum. */
static byte *put_due(byte *at, const Due *due, Bytes host) {
    byte *begin = at;
    at = put(put(at, due->record, (size_t)due->before), due->head.at, (size_t)due->head.size);
    at = put16(at, (uint32_t)(due->properties.size + due->source_size + CRC_BYTES));
    at = put(put(at, due->properties.at, (size_t)due->properties.size), due->source, (size_t)due->source_size);
    at = put(put(at, "__CRC32#\x01", 9), no_digits, 11);
    put32(put32(begin, (uint32_t)(at - begin)), due->head.size > SHORT_HEAD ? MAGIC_V2 : MAGIC_V1);
    put32(begin + 12, (uint32_t)due->queue_id);
    put(begin + STORE_HOST_AT, host.at, (size_t)host.size);
    return at;
}

static uint32_t *put_hashes(uint32_t *at, const Due *due) {
    const uint32_t topic = hash_on(hash_on(0, topic_of(due)), (Bytes){(const byte *)"#", 1});
    Bytes said = due->keys, word;
    if (due->unique_key.size) *at++ = (uint32_t)absolute(hash_on(topic, due->unique_key));
    while (next_word(&said, &word)) *at++ = (uint32_t)absolute(hash_on(topic, word));
    if (due->tags.size) *at++ = (uint32_t)absolute(hash_on(hash_on(topic, (Bytes){(const byte *)"T#", 2}), due->tags));
    return at;
}

/* Columns of a run, in the order in which they are returned. */
enum { STARTS, SIZES, GROUPS, CODES, DUES, OFFSETS, HASH_ENDS, HASHES, COLUMNS };

static const int column_bytes[COLUMNS] = {4, 4, 2, 8, 8, 8, 4, 4};

static PyObject *encoded(const Due *each, Py_ssize_t rows, Bytes host, uint32_t start, uint32_t hash_end) {
    Py_ssize_t total = 0, hashes = 0;
    for (const Due *due = each; due < each + rows; due++) {
        total += encoded_bytes(due);
        hashes += hashes_of(due);
    }
    PyObject *records = PyBytes_FromStringAndSize(NULL, total), *columns[COLUMNS] = {NULL};
    void *at[COLUMNS] = {NULL};
    int is_there = records != NULL;
    for (int column = 0; is_there && column < COLUMNS; column++) {
        Py_ssize_t count = column == HASHES ? hashes : rows;
        columns[column] = PyBytes_FromStringAndSize(NULL, count * column_bytes[column]);
        if ((is_there = columns[column] != NULL)) at[column] = PyBytes_AsString(columns[column]);
    }
    if (!is_there) {
        Py_DecRef(records);
        for (int column = 0; column < COLUMNS; column++) Py_DecRef(columns[column]);
        return NULL;
    }
    byte *record = (byte *)PyBytes_AsString(records);
    uint32_t *hash = at[HASHES];
    for (Py_ssize_t row = 0; row < rows; row++) {
        const Due *due = &each[row];
        byte *end = put_due(record, due, host);
        uint32_t *hash_stop = put_hashes(hash, due);
        ((uint32_t *)at[STARTS])[row] = start;
        ((uint32_t *)at[SIZES])[row] = (uint32_t)(end - record);
        ((uint16_t *)at[GROUPS])[row] = (uint16_t)due->group;
        ((int64_t *)at[CODES])[row] = (int32_t)hash_on(0, due->tags);
        ((int64_t *)at[DUES])[row] = due->due_ms;
        ((int64_t *)at[OFFSETS])[row] = due->offset;
        ((uint32_t *)at[HASH_ENDS])[row] = hash_end += (uint32_t)(hash_stop - hash);
        start += (uint32_t)(end - record);
        record = end;
        hash = hash_stop;
    }
    return Py_BuildValue(
        "(NNNNNNNNN)", records, columns[STARTS], columns[SIZES], columns[GROUPS], columns[CODES], columns[DUES],
        columns[OFFSETS], columns[HASH_ENDS], columns[HASHES]);
}

PyDoc_STRVAR(
    due_records_doc,
    "Encode timers for where they belong, as far as they are as usual: bytes of the log, where these begin, entries of "
    "(due ms, offset, position, size), the first of them, groups by what records say of where they go, the store's host, "
    "and how many bytes and hashes the run has. Return records and columns; None if the first is not as usual.");

static PyObject *due_records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes data, host;
    Column entries;
    int64_t start, first, size, hash_end;
    if (!has_args("due_records", count, 8) || !bytes_of(args[0], &data) || !int64_of(args[1], &start) ||
        !column_of(args[2], -1, &entries) || !int64_of(args[3], &first) || !bytes_of(args[5], &host) ||
        !int64_of(args[6], &size) || !int64_of(args[7], &hash_end))
        return NULL;
    if (!PyDict_Check(args[4]) || host.size != IPV4 || first < 0 || first > rows_of(entries) || size < 0 ||
        size > INT32_MAX || hash_end < 0 || hash_end > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "groups are a dictionary, a host has 8 bytes, and the rest is within its bounds");
        return NULL;
    }
    Py_ssize_t rows = rows_of(entries) - (Py_ssize_t)first, read = 0;
    Due *each = rows ? PyMem_Malloc((size_t)rows * sizeof *each) : NULL;
    if (rows && each == NULL) return PyErr_NoMemory();
    int is_usual = 1;
    while (read < rows && (is_usual = due_of(data, start, cell(entries, (Py_ssize_t)first + read), args[4], &each[read])) > 0)
        read++;
    PyObject *made = is_usual && read ? encoded(each, read, host, (uint32_t)size, (uint32_t)hash_end) : NULL;
    PyMem_Free(each);
    if (made != NULL || PyErr_Occurred()) return made;
    Py_RETURN_NONE;
}

/* Place, time and checksum. */

/* An array of Python whose elements have this form. */
static int array_of(PyObject *object, const char *format, Py_buffer *view) {
    if (PyObject_GetBuffer(object, view, PyBUF_ND | PyBUF_FORMAT) < 0) return 0;
    if (view->format != NULL && !strcmp(view->format, format)) return 1;
    PyErr_Format(PyExc_ValueError, "this column is an array of %s", format);
    return 0;
}

/* What is told of a run. */
typedef struct {
    Py_buffer data, starts, sizes, time_at, groups, codes;
    Py_ssize_t begin, stop, queues;
    int64_t *offsets, *bytes; /* of each queue: the next offset, and how much was put in */
    byte **entries;
} Placing;

#define ROW(view, type, row) (((const type *)(view).buf)[row])

/* Tell whether all stands within what is there; the columns have their forms. */
static int holds(const Placing *all) {
    if (all->begin < 0 || all->begin > all->stop || all->stop > all->starts.len / 4 || all->stop > all->sizes.len / 4 ||
        all->stop > all->time_at.len || all->stop > all->groups.len / 2 || all->stop > all->codes.len / 8)
        return 0;
    for (Py_ssize_t row = all->begin; row < all->stop; row++) {
        uint32_t size = ROW(all->sizes, uint32_t, row), time_at = ROW(all->time_at, uint8_t, row);
        if (size < LEAST_RECORD + CRC_BYTES || size > INT32_MAX || time_at + 8 > size - CRC_BYTES ||
            (int64_t)ROW(all->starts, uint32_t, row) + size > all->data.len || ROW(all->groups, uint16_t, row) >= all->queues)
            return 0;
    }
    return 1;
}

static void place_rows(Placing *all, int64_t position, int64_t now_ms) {
    for (Py_ssize_t row = all->begin; row < all->stop; row++) {
        byte *record = (byte *)all->data.buf + ROW(all->starts, uint32_t, row);
        uint32_t size = ROW(all->sizes, uint32_t, row), group = ROW(all->groups, uint16_t, row);
        put64(put64(record + 20, (uint64_t)all->offsets[group]++), (uint64_t)position);
        put64(record + ROW(all->time_at, uint8_t, row), (uint64_t)now_ms);
        put_crc(record + size - CRC_BYTES, crc32_of(record, size - CRC_BYTES));
        all->entries[group] = put_entry(all->entries[group], position, (int32_t)size, ROW(all->codes, int64_t, row));
        all->bytes[group] += size;
        position += size;
    }
}

/* Make room for the entries of each queue; NULL with an error. */
static PyObject *room_for(Placing *all) {
    PyObject *tails = PyList_New(all->queues);
    for (Py_ssize_t row = all->begin; tails != NULL && row < all->stop; row++)
        all->bytes[ROW(all->groups, uint16_t, row)] += ENTRY_BYTES;
    for (Py_ssize_t queue = 0; tails != NULL && queue < all->queues; queue++) {
        PyObject *tail = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)all->bytes[queue]);
        if (!put_cell(tails, queue, tail)) {
            Py_DecRef(tails);
            return NULL;
        }
        all->entries[queue] = (byte *)PyBytes_AsString(tail);
        all->bytes[queue] = 0;
    }
    return tails;
}

static PyObject *numbers_from(const int64_t *numbers, Py_ssize_t count) {
    PyObject *made = PyList_New(count);
    for (Py_ssize_t row = 0; made != NULL && row < count; row++)
        if (!put_cell(made, row, PyLong_FromLongLong(numbers[row]))) {
            Py_DecRef(made);
            return NULL;
        }
    return made;
}

static PyObject *placed(Placing *all, Column offsets, int64_t position, int64_t now_ms) {
    PyObject *tails = NULL, *bytes = NULL;
    size_t queues = (size_t)all->queues;
    all->offsets = PyMem_Calloc(queues + 1, sizeof *all->offsets);
    all->bytes = PyMem_Calloc(queues + 1, sizeof *all->bytes);
    all->entries = PyMem_Calloc(queues + 1, sizeof *all->entries);
    if (all->offsets == NULL || all->bytes == NULL || all->entries == NULL) PyErr_NoMemory();
    for (Py_ssize_t queue = 0; !PyErr_Occurred() && queue < all->queues; queue++)
        int64_of(cell(offsets, queue), &all->offsets[queue]);
    if (!PyErr_Occurred() && !holds(all)) PyErr_SetString(PyExc_ValueError, "a record is not within the run");
    if (!PyErr_Occurred() && (tails = room_for(all)) != NULL) {
        place_rows(all, position, now_ms);
        bytes = numbers_from(all->bytes, all->queues);
    }
    PyMem_Free(all->offsets);
    PyMem_Free(all->bytes);
    PyMem_Free(all->entries);
    if (bytes != NULL) return Py_BuildValue("(NN)", tails, bytes);
    Py_DecRef(tails);
    return NULL;
}

PyDoc_STRVAR(
    place_records_doc, "The twin of append._place: write place, time and checksum into records that were made before; return the "
               "entries of each queue, and how many bytes it got.");

static PyObject *place_records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const char *const forms[] = {"I", "I", "B", "H", "q"};
    Placing all;
    Column offsets;
    int64_t begin, stop, position, now_ms;
    if (!has_args("place_records", count, 11) || !int64_of(args[6], &begin) || !int64_of(args[7], &stop) ||
        !int64_of(args[8], &position) || !int64_of(args[9], &now_ms) || !column_of(args[10], -1, &offsets))
        return NULL;
    memset(&all, 0, sizeof all);
    Py_buffer *views[] = {&all.starts, &all.sizes, &all.time_at, &all.groups, &all.codes};
    int is_there = PyObject_GetBuffer(args[0], &all.data, PyBUF_WRITABLE) == 0;
    for (int column = 0; is_there && column < 5; column++) is_there = array_of(args[column + 1], forms[column], views[column]);
    all.begin = (Py_ssize_t)begin;
    all.stop = (Py_ssize_t)stop;
    all.queues = rows_of(offsets);
    PyObject *made = is_there ? placed(&all, offsets, position, now_ms) : NULL;
    for (int column = 0; column < 5; column++) PyBuffer_Release(views[column]);
    PyBuffer_Release(&all.data);
    return made;
}

PyMethodDef run_functions[] = {FAST(due_records), FAST(place_records), NO_MORE};
