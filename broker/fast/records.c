/* Records, one by one and in columns, and entries of queues (rocketmq/message.py, engine/log/append.py). */

#include "fast.h"

PyDoc_STRVAR(record_doc, "The twin of message.encode: one record with its checksum.");

static PyObject *record(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes topic, body, properties, born_host, store_host;
    int32_t queue_id, flag, sys_flag, reconsume_times, size;
    int64_t offset, position, born_ms, store_ms, prepared;
    if (!has_args("record", count, 15) || !bytes_of(args[0], &topic) || !int32_of(args[1], &queue_id) ||
        !int64_of(args[2], &offset) || !int64_of(args[3], &position) || !bytes_of(args[4], &body) ||
        !bytes_of(args[5], &properties) || !int32_of(args[6], &flag) || !int32_of(args[7], &sys_flag) ||
        !int64_of(args[8], &born_ms) || !bytes_of(args[9], &born_host) || !int64_of(args[10], &store_ms) ||
        !bytes_of(args[11], &store_host) || !int32_of(args[12], &reconsume_times) || !int64_of(args[13], &prepared) ||
        !int32_of(args[14], &size) || !fits(topic, body, properties))
        return NULL;
    if ((born_host.size != IPV4 && born_host.size != IPV6) || (store_host.size != IPV4 && store_host.size != IPV6) ||
        record_bytes(topic, body, properties, born_host.size + store_host.size) != size) {
        PyErr_SetString(PyExc_ValueError, "a host has 8 or 20 bytes, and a record the size that record_size says");
        return NULL;
    }
    sys_flag &= ~(BORN_IPV6 | STORE_IPV6);
    if (born_host.size == IPV6) sys_flag |= BORN_IPV6;
    if (store_host.size == IPV6) sys_flag |= STORE_IPV6;
    int is_wide = topic.size > 127;
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    if (made == NULL) return NULL;
    byte *begin = (byte *)PyBytes_AsString(made), *at = begin;
    at = put32(at, (uint32_t)size);
    at = put32(at, is_wide ? MAGIC_V2 : MAGIC_V1);
    at = put32(at, crc32_of(body.at, (size_t)body.size) & MASK31);
    at = put32(at, (uint32_t)queue_id);
    at = put32(at, (uint32_t)flag);
    at = put64(at, (uint64_t)offset);
    at = put64(at, (uint64_t)position);
    at = put32(at, (uint32_t)sys_flag);
    at = put64(at, (uint64_t)born_ms);
    at = put(at, born_host.at, (size_t)born_host.size);
    at = put64(at, (uint64_t)store_ms);
    at = put(at, store_host.at, (size_t)store_host.size);
    at = put32(at, (uint32_t)reconsume_times);
    at = put64(at, (uint64_t)prepared);
    at = put32(at, (uint32_t)body.size);
    at = put(at, body.at, (size_t)body.size);
    if (is_wide) at = put16(at, (uint32_t)topic.size);
    else *at++ = (byte)topic.size;
    at = put(at, topic.at, (size_t)topic.size);
    at = put16(at, (uint32_t)(properties.size + CRC_BYTES));
    at = put(at, properties.at, (size_t)properties.size);
    put_crc_property(begin, at);
    return made;
}

/* The properties as a dictionary, without the checksum; NULL and no error if they are none. */
static PyObject *properties_of(const byte *at, const byte *end) {
    PyObject *made = PyDict_New();
    while (made != NULL && at < end) {
        const byte *stop = memchr(at, 2, (size_t)(end - at));
        if (stop == NULL) stop = end;
        const byte *mark = memchr(at, 1, (size_t)(stop - at));
        if (mark != NULL) {
            PyObject *name = PyUnicode_DecodeUTF8((const char *)at, mark - at, NULL);
            PyObject *value = name == NULL ? NULL : PyUnicode_DecodeUTF8((const char *)mark + 1, stop - mark - 1, NULL);
            int failed = value == NULL || PyDict_SetItem(made, name, value) < 0;
            Py_DecRef(name);
            Py_DecRef(value);
            if (failed) {
                Py_DecRef(made);
                return NULL;
            }
        } else if (stop > at) {
            Py_DecRef(made);
            return NULL;
        }
        at = stop + 1;
    }
    return made;
}

static PyObject *host_of(const byte *at) {
    return Py_BuildValue(
        "(NI)", PyUnicode_FromFormat("%d.%d.%d.%d", at[0], at[1], at[2], at[3]), (unsigned int)get32(at + 4));
}

PyDoc_STRVAR(
    usual_record_doc, "Return the fields of a Message, in their order, of an undamaged record with a checksum and short "
                      "addresses; else None.");

static PyObject *usual_record(PyObject *module, PyObject *record) {
    Bytes whole;
    if (!bytes_of(record, &whole)) return NULL;
    const byte *begin = whole.at, *end = begin + whole.size;
    if (whole.size < 88 + 4 + CRC_BYTES || get32(begin) != (uint32_t)whole.size) Py_RETURN_NONE;
    uint32_t magic = get32(begin + 4), sys_flag = get32(begin + 36), crc = 0;
    const byte *check = end - CRC_BYTES;
    if ((magic != MAGIC_V1 && magic != MAGIC_V2) || sys_flag & (BORN_IPV6 | STORE_IPV6) ||
        memcmp(check, "__CRC32#\x01", 9) || end[-1] != 2)
        Py_RETURN_NONE;
    uint64_t said = 0;
    for (const byte *digit = end - 2; digit >= check + 9; digit--) {
        if (!is_digit(*digit)) Py_RETURN_NONE;
        said = said * 10 + (uint64_t)(*digit - '0');
    }
    crc = crc32_of(begin, (size_t)(whole.size - CRC_BYTES)) & MASK31;
    if (said != crc) Py_RETURN_NONE;
    uint32_t body_size = get32(begin + 84);
    const byte *body = begin + 88, *at;
    if (body_size > (uint32_t)(check - body)) Py_RETURN_NONE;
    at = body + body_size;
    if (check - at < 4) Py_RETURN_NONE;
    Py_ssize_t topic_size = magic == MAGIC_V2 ? (Py_ssize_t)get16(at) : at[0];
    const byte *topic = at + (magic == MAGIC_V2 ? 2 : 1);
    if (topic_size + 2 > check - topic) Py_RETURN_NONE;
    at = topic + topic_size;
    if (end - at - 2 != (Py_ssize_t)get16(at)) Py_RETURN_NONE;
    /* what stands before the checksum may be its own property only by name: left to Python */
    PyObject *properties = properties_of(at + 2, check), *name = PyUnicode_DecodeUTF8((const char *)topic, topic_size, NULL);
    if (properties == NULL || name == NULL || (check > at + 2 && check[-1] != 2)) {
        Py_DecRef(properties);
        Py_DecRef(name);
        return nothing_unless_failed();
    }
    PyObject *key = PyUnicode_FromString("__CRC32#");
    int is_said_twice = key == NULL ? -1 : PyDict_Contains(properties, key);
    Py_DecRef(key);
    if (is_said_twice) {
        Py_DecRef(properties);
        Py_DecRef(name);
        return nothing_unless_failed();
    }
#define INT64(at) ((long long)get64(at))
    return Py_BuildValue(
        "(NiLLny#NiiLNLNiL)", name, (int)(int32_t)get32(begin + 12), INT64(begin + 20), INT64(begin + 28), whole.size,
        (const char *)body, (Py_ssize_t)body_size, properties, (int)(int32_t)get32(begin + 16), (int)(int32_t)sys_flag,
        INT64(begin + 40), host_of(begin + 48), INT64(begin + 56), host_of(begin + 64), (int)(int32_t)get32(begin + 72),
        INT64(begin + 76));
#undef INT64
}

PyDoc_STRVAR(
    all_stand_here_doc, "Tell whether these records stand at their positions, of these sizes and undamaged, one after the "
                        "other in a queue from an offset on.");

static PyObject *all_stand_here(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column records, positions, sizes;
    int32_t queue_id;
    int64_t offset;
    if (!has_args("all_stand_here", count, 5) || !column_of(args[0], -1, &records)) return NULL;
    Py_ssize_t rows = rows_of(records);
    if (!column_of(args[1], rows, &positions) || !column_of(args[2], rows, &sizes) || !int32_of(args[3], &queue_id) ||
        !int64_of(args[4], &offset))
        return NULL;
    for (Py_ssize_t row = 0; row < rows; row++) {
        Bytes record;
        int64_t position, size;
        byte place[16], check[CRC_BYTES];
        if (!bytes_of(cell(records, row), &record) || !int64_of(cell(positions, row), &position) ||
            !int64_of(cell(sizes, row), &size))
            return NULL;
        put64(put64(place, (uint64_t)(offset + row)), (uint64_t)position);
        if (size < LEAST_RECORD || record.size != size || get32(record.at) != (uint32_t)size ||
            get32(record.at + 4) != MAGIC_V1 || get32(record.at + 12) != (uint32_t)queue_id ||
            memcmp(record.at + 20, place, sizeof place))
            Py_RETURN_FALSE;
        put_crc(check, crc32_of(record.at, (size_t)(size - CRC_BYTES)));
        if (memcmp(record.at + size - CRC_BYTES, check, CRC_BYTES)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

byte *put_row(byte *at, const Row *row) {
    byte *begin = at;
    at = put32(at, (uint32_t)row->size);
    at = put32(at, MAGIC_V1);
    at = put32(at, crc32_of(row->body.at, (size_t)row->body.size) & MASK31);
    at = put32(at, (uint32_t)row->queue_id);
    at = put32(at, (uint32_t)row->flag);
    at = put64(at, (uint64_t)row->offset);
    at = put64(at, (uint64_t)row->position);
    at = put(at, row->same, 48);
    at = put32(at, (uint32_t)row->body.size);
    at = put(at, row->body.at, (size_t)row->body.size);
    *at++ = (byte)row->name.size;
    at = put(at, row->name.at, (size_t)row->name.size);
    at = put16(at, (uint32_t)(row->properties.size + row->is_open + CRC_BYTES));
    at = put(at, row->properties.at, (size_t)row->properties.size);
    if (row->is_open) *at++ = 2;
    return put_crc_property(begin, at);
}

PyDoc_STRVAR(records_doc, "The twin of append._records: records of short names and addresses, as one piece.");

static PyObject *records(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    /* name, queue ids, offsets, positions, sizes, bodies, properties, flags, and of each what is the same in many */
    Bytes name;
    Column columns[8];
    if (!has_args("records", count, 9) || !bytes_of(args[0], &name) || !column_of(args[1], -1, &columns[0])) return NULL;
    Py_ssize_t rows = rows_of(columns[0]), total = 0;
    for (int number = 1; number < 8; number++)
        if (!column_of(args[number + 1], rows, &columns[number])) return NULL;
    if (name.size > 127) {
        PyErr_SetString(PyExc_ValueError, "the name of the topic is too long to go this way");
        return NULL;
    }
    for (Py_ssize_t row = 0; row < rows; row++) {
        Bytes body, properties, same;
        int32_t size;
        if (!int32_of(cell(columns[3], row), &size) || !bytes_of(cell(columns[4], row), &body) ||
            !bytes_of(cell(columns[5], row), &properties) || !bytes_of(cell(columns[7], row), &same) ||
            !fits(name, body, properties))
            return NULL;
        if (record_bytes(name, body, properties, 2 * IPV4) != size || same.size != 48) {
            PyErr_SetString(PyExc_ValueError, "a record has the size that record_size says");
            return NULL;
        }
        total += size;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, total);
    if (made == NULL) return NULL;
    byte *at = (byte *)PyBytes_AsString(made);
    for (Py_ssize_t row = 0; row < rows; row++) {
        Bytes body, properties, same;
        int32_t queue_id, size, flag;
        int64_t offset, position;
        if (!int32_of(cell(columns[0], row), &queue_id) || !int64_of(cell(columns[1], row), &offset) ||
            !int64_of(cell(columns[2], row), &position) || !int32_of(cell(columns[3], row), &size) ||
            !bytes_of(cell(columns[4], row), &body) || !bytes_of(cell(columns[5], row), &properties) ||
            !int32_of(cell(columns[6], row), &flag) || !bytes_of(cell(columns[7], row), &same)) {
            Py_DecRef(made);
            return NULL;
        }
        Row put_in = {name, body, properties, same.at, offset, position, size, queue_id, flag, 0};
        at = put_row(at, &put_in);
    }
    return made;
}

PyDoc_STRVAR(entries_doc, "Return packed entries of a queue: positions, sizes, and codes of tags or None.");

static PyObject *entries(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column positions, sizes, codes = {NULL, 0};
    if (!has_args("entries", count, 3) || !column_of(args[0], -1, &positions)) return NULL;
    Py_ssize_t rows = rows_of(positions);
    if (!column_of(args[1], rows, &sizes) || (args[2] != Py_None && !column_of(args[2], rows, &codes))) return NULL;
    PyObject *made = PyBytes_FromStringAndSize(NULL, 20 * rows);
    if (made == NULL) return NULL;
    byte *at = (byte *)PyBytes_AsString(made);
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t position, code = 0;
        int32_t size;
        if (!int64_of(cell(positions, row), &position) || !int32_of(cell(sizes, row), &size) ||
            (codes.rows != NULL && !int64_of(cell(codes, row), &code))) {
            Py_DecRef(made);
            return NULL;
        }
        at = put_entry(at, position, size, code);
    }
    return made;
}

PyMethodDef record_functions[] = {FAST(all_stand_here), FAST(entries), FAST(record), FAST(records), ONE(usual_record), NO_MORE};
