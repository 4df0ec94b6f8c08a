/* Twins of a few functions of broker/, compiled: what they say stands in Python beside each use, and decides.

   Whatever is not as usual is left to Python: a function then returns None, and changes nothing. Nothing is kept
   between two calls. All bytes come from outside, so each length is held against what is there before it is used.
   Only Python's stable interface is used: one build serves 3.11 and everything after it. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Changes whenever a function takes or returns something else; broker/rocketmq/compiled.py asks for this number. */
#define INTERFACE 2

typedef unsigned char byte;

/* Numbers, big endian. */

static inline byte *put16(byte *at, uint32_t value) {
    at[0] = (byte)(value >> 8);
    at[1] = (byte)value;
    return at + 2;
}

static inline byte *put32(byte *at, uint32_t value) {
    at[0] = (byte)(value >> 24);
    at[1] = (byte)(value >> 16);
    at[2] = (byte)(value >> 8);
    at[3] = (byte)value;
    return at + 4;
}

static inline byte *put64(byte *at, uint64_t value) {
    return put32(put32(at, (uint32_t)(value >> 32)), (uint32_t)value);
}

static inline byte *put(byte *at, const void *from, size_t size) {
    memcpy(at, from, size);
    return at + size;
}

static inline uint32_t get16(const byte *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t get32(const byte *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int is_digit(byte letter) { return letter >= '0' && letter <= '9'; }

/* CRC-32 (IEEE 802.3, reflected), eight bytes a step. */

static uint32_t crc_table[8][256];

static void make_crc_table(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        crc_table[0][value] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int value = 0; value < 256; value++) {
            uint32_t before = crc_table[row - 1][value];
            crc_table[row][value] = before >> 8 ^ crc_table[0][before & 255];
        }
}

static uint32_t crc32_of(const byte *at, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
              crc_table[0][at[7]];
    }
    for (; size; size--, at++) crc = crc >> 8 ^ crc_table[0][(crc ^ *at) & 255];
    return ~crc;
}

/* Arguments. */

static int has_args(const char *name, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, given);
    return 0;
}

static int int32_of(PyObject *object, int32_t *value) {
    long long read = PyLong_AsLongLong(object);
    if (read == -1 && PyErr_Occurred()) return 0;
    if (read < INT32_MIN || read > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a number has more than 32 bits");
        return 0;
    }
    *value = (int32_t)read;
    return 1;
}

static int int64_of(PyObject *object, int64_t *value) {
    long long read = PyLong_AsLongLong(object);
    if (read == -1 && PyErr_Occurred()) return 0;
    *value = read;
    return 1;
}

typedef struct {
    const byte *at;
    Py_ssize_t size;
} Bytes;

static int bytes_of(PyObject *object, Bytes *bytes) {
    char *at;
    if (PyBytes_AsStringAndSize(object, &at, &bytes->size) < 0) return 0;
    bytes->at = (const byte *)at;
    return 1;
}

/* A column: a list or a tuple of a known length. */
typedef struct {
    PyObject *rows;
    int is_list;
} Column;

static int column_of(PyObject *object, Py_ssize_t rows, Column *column) {
    column->rows = object;
    column->is_list = PyList_Check(object);
    if (!column->is_list && !PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a column is a list or a tuple");
        return 0;
    }
    Py_ssize_t size = column->is_list ? PyList_Size(object) : PyTuple_Size(object);
    if (rows >= 0 && size != rows) {
        PyErr_SetString(PyExc_ValueError, "columns have different lengths");
        return 0;
    }
    return 1;
}

static Py_ssize_t rows_of(Column column) {
    return column.is_list ? PyList_Size(column.rows) : PyTuple_Size(column.rows);
}

static PyObject *cell(Column column, Py_ssize_t row) { /* borrowed */
    return column.is_list ? PyList_GetItem(column.rows, row) : PyTuple_GetItem(column.rows, row);
}

/* Records (layout.py). */

enum {
    CRC_BYTES = 20, MOST_PROPERTIES = 0xFFFF - CRC_BYTES, IPV4 = 8, IPV6 = 20, BORN_IPV6 = 0x10, STORE_IPV6 = 0x20,
    LEAST_RECORD = 92,
};

static const uint32_t MAGIC_V1 = 0xDAA320A7u, MAGIC_V2 = 0xDAA320ABu, MASK31 = 0x7FFFFFFFu;

static byte *put_crc(byte *at, uint32_t crc) {
    crc &= MASK31;
    at = put(at, "__CRC32#\x01", 9);
    for (int digit = 0; digit < 10; digit++, crc /= 10) *at++ = (byte)('0' + crc % 10);
    *at++ = 2;
    return at;
}

static byte *put_crc_property(byte *begin, byte *end) { return put_crc(end, crc32_of(begin, (size_t)(end - begin))); }

static Py_ssize_t record_bytes(Bytes topic, Bytes body, Bytes properties, Py_ssize_t hosts) {
    return 72 + hosts + body.size + topic.size + (topic.size <= 127 ? 3 : 4) + properties.size + CRC_BYTES;
}

/* Tell whether lengths fit their fields; the sizes of what is kept were held against their limits long before. */
static int fits(Bytes topic, Bytes body, Bytes properties) {
    if (topic.size <= 0xFFFF && properties.size <= MOST_PROPERTIES && body.size <= INT32_MAX - 0x20000) return 1;
    PyErr_SetString(PyExc_OverflowError, "a name, a body or the properties are too long for a record");
    return 0;
}

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

static PyObject *nothing_unless_failed(void) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
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
#define INT64(at) ((long long)((uint64_t)get32(at) << 32 | get32((at) + 4)))
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
        byte *begin = at;
        at = put32(at, (uint32_t)size);
        at = put32(at, MAGIC_V1);
        at = put32(at, crc32_of(body.at, (size_t)body.size) & MASK31);
        at = put32(at, (uint32_t)queue_id);
        at = put32(at, (uint32_t)flag);
        at = put64(at, (uint64_t)offset);
        at = put64(at, (uint64_t)position);
        at = put(at, same.at, 48);
        at = put32(at, (uint32_t)body.size);
        at = put(at, body.at, (size_t)body.size);
        *at++ = (byte)name.size;
        at = put(at, name.at, (size_t)name.size);
        at = put16(at, (uint32_t)(properties.size + CRC_BYTES));
        at = put(at, properties.at, (size_t)properties.size);
        at = put_crc_property(begin, at);
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
        at = put64(put32(put64(at, (uint64_t)position), (uint32_t)size), (uint64_t)code);
    }
    return made;
}

/* The index. */

static int add_hash(uint32_t *hash, PyObject *text) {
    Py_ssize_t size;
    const char *letters = PyUnicode_AsUTF8AndSize(text, &size);
    uint32_t value = *hash;
    if (letters != NULL) {
        Py_ssize_t at = 0;
        for (; at < size && (byte)letters[at] < 128; at++) value = value * 31 + (byte)letters[at];
        if (at == size) {
            *hash = value;
            return 1;
        }
    } else if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear(); /* half a pair of surrogates */
    } else {
        return 0;
    }
    PyObject *units = PyUnicode_AsEncodedString(text, "utf-16-be", "surrogatepass");
    Bytes raw;
    if (units == NULL || !bytes_of(units, &raw)) {
        Py_DecRef(units);
        return 0;
    }
    value = *hash;
    for (Py_ssize_t at = 0; at + 1 < raw.size; at += 2) value = value * 31 + get16(raw.at + at);
    Py_DecRef(units);
    *hash = value;
    return 1;
}

static PyObject *absolute(uint32_t hash) {
    return PyLong_FromLong(hash < 0x80000000u ? (long)hash : (long)((0u - hash) & MASK31));
}

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
        else if (add_hash(&hash, key) && (value = absolute(hash)) != NULL) {
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
    return add_hash(&hash, text) ? absolute(hash) : NULL;
}

PyDoc_STRVAR(
    put_entries_doc, "Put entries into the slots of an index: slots, hashes, positions, seconds, first number, pages, slots a "
              "page. Return the packed entries and how many slots were empty.");

static PyObject *put_entries(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column keys, positions;
    int32_t seconds, number, page_slots;
    if (!has_args("put_entries", count, 7) || !column_of(args[1], -1, &keys)) return NULL;
    Py_ssize_t rows = rows_of(keys);
    if (!column_of(args[2], rows, &positions) || !int32_of(args[3], &seconds) || !int32_of(args[4], &number) ||
        !int32_of(args[6], &page_slots))
        return NULL;
    if (page_slots <= 0 || !PySet_Check(args[5])) {
        PyErr_SetString(PyExc_ValueError, "pages are a set, and have slots");
        return NULL;
    }
    /* all of it is looked at before a slot changes */
    for (Py_ssize_t row = 0; row < rows; row++) {
        int32_t hash;
        int64_t position;
        if (!int32_of(cell(keys, row), &hash) || !int64_of(cell(positions, row), &position)) return NULL;
        if (hash < 0) {
            PyErr_SetString(PyExc_ValueError, "a hash is no negative number");
            return NULL;
        }
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE | PyBUF_FORMAT) < 0) return NULL;
    if (view.itemsize != 4 || view.format == NULL || strcmp(view.format, "i") || view.len < 4 ||
        rows > INT32_MAX - (Py_ssize_t)number) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "slots are an array of int, and have room");
        return NULL;
    }
    int32_t *slots = view.buf, slot_count = (int32_t)(view.len / 4), page = -1;
    long fresh = 0;
    PyObject *made = PyBytes_FromStringAndSize(NULL, 20 * rows);
    byte *at = made == NULL ? NULL : (byte *)PyBytes_AsString(made);
    for (Py_ssize_t row = 0; made != NULL && row < rows; row++) {
        int32_t hash = 0, previous, slot;
        int64_t position = 0;
        int32_of(cell(keys, row), &hash);
        int64_of(cell(positions, row), &position);
        slot = hash % slot_count;
        previous = slots[slot];
        fresh += !previous;
        if (slot / page_slots != page) {
            page = slot / page_slots;
            PyObject *dirty = PyLong_FromLong(page);
            if (dirty == NULL || PySet_Add(args[5], dirty) < 0) {
                Py_DecRef(dirty);
                Py_DecRef(made);
                made = NULL;
                break;
            }
            Py_DecRef(dirty);
        }
        slots[slot] = number++;
        at = put32(put32(put64(put32(at, (uint32_t)hash), (uint64_t)position), (uint32_t)seconds), (uint32_t)previous);
    }
    PyBuffer_Release(&view);
    return made == NULL ? NULL : Py_BuildValue("(Nl)", made, fresh);
}

/* Properties (engine/message_header.py). */

PyDoc_STRVAR(
    keys_alike_doc,
    "Return what stands between two places of each, if all are as long, the same around it, and plain there; else None.");

static PyObject *keys_alike(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column raws;
    Bytes first, raw;
    int32_t begin, end;
    if (!has_args("keys_alike", count, 3) || !column_of(args[0], -1, &raws) || !int32_of(args[1], &begin) ||
        !int32_of(args[2], &end))
        return NULL;
    Py_ssize_t rows = rows_of(raws);
    if (!rows || !bytes_of(cell(raws, 0), &first)) return NULL;
    if (begin < 0 || begin > end || end > first.size) {
        PyErr_SetString(PyExc_ValueError, "these places are outside");
        return NULL;
    }
    PyObject *made = PyList_New(rows);
    if (made == NULL) return NULL;
    for (Py_ssize_t row = 0; row < rows; row++) {
        if (!bytes_of(cell(raws, row), &raw)) {
            Py_DecRef(made);
            return NULL;
        }
        int is_alike = raw.size == first.size && !memcmp(raw.at, first.at, (size_t)begin) &&
                       !memcmp(raw.at + end, first.at + end, (size_t)(first.size - end));
        for (int32_t at = begin; is_alike && at < end; at++) is_alike = raw.at[at] >= '!' && raw.at[at] <= '~';
        if (!is_alike) {
            Py_DecRef(made);
            Py_RETURN_NONE;
        }
        PyObject *key = PyUnicode_DecodeASCII((const char *)raw.at + begin, end - begin, NULL);
        if (key == NULL) {
            Py_DecRef(made);
            return NULL;
        }
        PyList_SetItem(made, row, key);
    }
    return made;
}

static int begins(const byte *at, Py_ssize_t size, const char *with) {
    size_t length = strlen(with);
    return (size_t)size >= length && !memcmp(at, with, length);
}

static int is_named(const byte *at, Py_ssize_t size, const char *name) {
    return (size_t)size == strlen(name) && begins(at, size, name);
}

PyDoc_STRVAR(
    usual_facts_doc,
    "Return the Facts of well-formed ASCII properties in which nothing needs a closer look, and no moment either; else "
    "None.");

static PyObject *usual_facts(PyObject *module, PyObject *raw) {
    Bytes text;
    if (!bytes_of(raw, &text)) return NULL;
    PyObject *found[3] = {NULL, NULL, NULL};
    Bytes said[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    for (Py_ssize_t at = 0; at < text.size; at++)
        if (text.at[at] > 127) Py_RETURN_NONE;
    if (!text.size || text.at[text.size - 1] != 2) Py_RETURN_NONE;
    for (const byte *at = text.at, *end = at + text.size; at < end;) {
        const byte *stop = memchr(at, 2, (size_t)(end - at)), *mark = memchr(at, 1, (size_t)(end - at));
        if (stop == NULL || mark == NULL || mark == at || mark > stop) Py_RETURN_NONE;
        Py_ssize_t size = mark - at;
        int place = is_named(at, size, "UNIQ_KEY") ? 0 : is_named(at, size, "TAGS") ? 1 : is_named(at, size, "KEYS") ? 2 : -1;
        if (place >= 0) {
            said[place].at = mark + 1;
            said[place].size = stop - mark - 1;
        } else if (is_named(at, size, "DELAY") || begins(at, size, "TIMER_D") || begins(at, size, "ESC_") ||
                   is_named(at, size, "POP_CK") || begins(at, size, "__CRC32#"))
            Py_RETURN_NONE;
        at = stop + 1;
    }
    for (int place = 0; place < 3; place++) {
        if (said[place].at == NULL) {
            found[place] = Py_None;
            Py_IncRef(Py_None);
        } else
            found[place] = PyUnicode_DecodeASCII((const char *)said[place].at, said[place].size, NULL);
        if (found[place] == NULL) {
            while (place--) Py_DecRef(found[place]);
            return NULL;
        }
    }
    return Py_BuildValue("(ONNNisO)", raw, found[0], found[1], found[2], 0, "", Py_None);
}

/* Sends (rocketmq/sends.py). */

PyDoc_STRVAR(split_batch_doc, "Return the messages of a batch as (body, properties, flag); None if it is not right.");

static PyObject *split_batch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes batch;
    int32_t most;
    if (!has_args("split_batch", count, 2) || !bytes_of(args[0], &batch) || !int32_of(args[1], &most)) return NULL;
    PyObject *made = PyList_New(0);
    if (made == NULL) return NULL;
    for (Py_ssize_t at = 0; at < batch.size;) {
        const byte *item = batch.at + at;
        Py_ssize_t left = batch.size - at;
        if (left < 20 || PyList_Size(made) >= most) goto refuse;
        int64_t size = get32(item), length = get32(item + 16);
        if (size > left || 20 + length + 2 > size) goto refuse;
        const byte *properties = item + 20 + length + 2;
        int64_t properties_size = get16(properties - 2);
        if (22 + length + properties_size != size) goto refuse;
        int is_closed = !properties_size || properties[properties_size - 1] == 2;
        PyObject *stored = PyBytes_FromStringAndSize(
            is_closed ? (const char *)properties : NULL, (Py_ssize_t)properties_size + !is_closed);
        if (stored == NULL) goto fail;
        if (!is_closed) {
            byte *copy = (byte *)PyBytes_AsString(stored);
            memcpy(copy, properties, (size_t)properties_size);
            copy[properties_size] = 2;
        }
        PyObject *row = Py_BuildValue(
            "(y#Ni)", (const char *)item + 20, (Py_ssize_t)length, stored, (int)(int32_t)get32(item + 12));
        if (row == NULL) goto fail;
        int failed = PyList_Append(made, row);
        Py_DecRef(row);
        if (failed) goto fail;
        at += (Py_ssize_t)size;
    }
    if (PyList_Size(made)) return made;
refuse:
    Py_DecRef(made);
    Py_RETURN_NONE;
fail:
    Py_DecRef(made);
    return NULL;
}

/* The digits of a field as a number; -1 if there are none, more than `most`, or anything else. */
static int64_t digits_of(const byte *at, Py_ssize_t size, Py_ssize_t most) {
    int64_t value = 0;
    if (!size || size > most) return -1;
    for (; size; size--, at++) {
        if (!is_digit(*at)) return -1;
        value = value * 10 + (*at - '0');
    }
    return value;
}

PyDoc_STRVAR(
    read_send_doc, "Return what a plain send with a binary header says, as SendShortcut.read does; None if anything about "
                   "it is not as usual.");

static PyObject *read_send(PyObject *module, PyObject *frame) {
    Bytes whole, fields[14];
    if (!bytes_of(frame, &whole)) return NULL;
    if (whole.size < 25 || whole.at[0] != 1 || get16(whole.at + 4) != 310) Py_RETURN_NONE;
    Py_ssize_t header = (Py_ssize_t)(get32(whole.at) & 0xFFFFFF), body_at = 4 + header;
    uint32_t frame_flag = get32(whole.at + 13);
    if (body_at > whole.size || body_at < 25 || frame_flag & ~2u || get32(whole.at + 17) ||
        get32(whole.at + 21) != (uint32_t)(header - 21))
        Py_RETURN_NONE;
    memset(fields, 0, sizeof fields);
    for (const byte *at = whole.at + 25, *end = whole.at + body_at; at < end;) {
        if (end - at < 7 || get16(at) != 1 || at[2] < 'a' || at[2] > 'n') Py_RETURN_NONE;
        Bytes *field = &fields[at[2] - 'a'];
        uint32_t size = get32(at + 3);
        at += 7;
        if (field->at != NULL || size > (uint32_t)(end - at)) Py_RETURN_NONE;
        field->at = at;
        field->size = (Py_ssize_t)size;
        at += size;
    }
#define FIELD(letter) fields[letter - 'a']
    for (const char *name = "abcn"; *name; name++)
        for (Py_ssize_t at = 0; at < FIELD(*name).size; at++)
            if (FIELD(*name).at[at] > 127) Py_RETURN_NONE;
    Bytes topic = FIELD('b'), d = FIELD('d'), j = FIELD('j'), l = FIELD('l'), m = FIELD('m'), properties = FIELD('i');
    int64_t queue_id = digits_of(FIELD('e').at, FIELD('e').size, 9);
    int64_t sys_flag = digits_of(FIELD('f').at, FIELD('f').size, 1);
    int64_t born_ms = digits_of(FIELD('g').at, FIELD('g').size, 13), flag = digits_of(FIELD('h').at, FIELD('h').size, 1);
    if (FIELD('a').at == NULL || topic.at == NULL || properties.at == NULL || queue_id < 0 || sys_flag < 0 ||
        born_ms < 0 || flag < 0 || l.size || (d.size && digits_of(d.at, d.size, 9) < 0) ||
        (j.size && !is_named(j.at, j.size, "0")) || (m.size && !is_named(m.at, m.size, "false")))
        Py_RETURN_NONE;
#undef FIELD
    return Py_BuildValue(
        "(iis#LLLLy#y#)", (int)(int32_t)get32(whole.at + 9), (int)frame_flag, (const char *)topic.at, topic.size,
        (long long)queue_id, (long long)sys_flag, (long long)born_ms, (long long)flag, (const char *)properties.at,
        properties.size, (const char *)whole.at + body_at, whole.size - body_at);
}

/* Decisions (rocketmq/end_transaction.py). */

PyDoc_STRVAR(
    read_end_doc, "Return what a decision about a half with a binary header says, as EndShortcut.read does; None if "
                  "anything about it is not as usual.");

static PyObject *read_end(PyObject *module, PyObject *frame) {
    static const char *const names[6] = {
        "commitOrRollback", "tranStateTableOffset", "commitLogOffset", "producerGroup", "transactionId",
        "fromTransactionCheck",
    };
    Bytes whole, fields[6];
    if (!bytes_of(frame, &whole)) return NULL;
    if (whole.size < 25 || whole.at[0] != 1 || get16(whole.at + 4) != 37) Py_RETURN_NONE;
    uint32_t frame_flag = get32(whole.at + 13);
    if ((Py_ssize_t)(get32(whole.at) & 0xFFFFFF) != whole.size - 4 || frame_flag & ~2u || get32(whole.at + 17) ||
        get32(whole.at + 21) != (uint32_t)(whole.size - 25))
        Py_RETURN_NONE;
    memset(fields, 0, sizeof fields);
    int left = 16;
    for (const byte *at = whole.at + 25, *end = whole.at + whole.size; at < end;) {
        if (end - at < 2 || !left--) Py_RETURN_NONE;
        Py_ssize_t name_size = (Py_ssize_t)get16(at);
        const byte *name = at + 2;
        if (end - name < name_size + 4) Py_RETURN_NONE;
        uint32_t size = get32(name + name_size);
        at = name + name_size + 4;
        if (size > (uint32_t)(end - at)) Py_RETURN_NONE;
        for (int place = 0; place < 6; place++)
            if (is_named(name, name_size, names[place])) {
                if (fields[place].at != NULL) Py_RETURN_NONE;
                fields[place].at = at;
                fields[place].size = (Py_ssize_t)size;
            }
        at += size;
    }
    for (int place = 0; place < 6; place++)
        if (fields[place].at == NULL) Py_RETURN_NONE;
    Bytes said = fields[0], group = fields[3], id = fields[4], check = fields[5];
    int64_t offset = digits_of(fields[1].at, fields[1].size, 18), position = digits_of(fields[2].at, fields[2].size, 18);
    PyObject *commit = is_named(said.at, said.size, "8")    ? Py_True
                       : is_named(said.at, said.size, "12") ? Py_False
                       : is_named(said.at, said.size, "0")  ? Py_None
                                                            : NULL;
    int is_check = is_named(check.at, check.size, "true");
    if (commit == NULL || offset < 0 || position < 0 || (!is_check && !is_named(check.at, check.size, "false")))
        Py_RETURN_NONE;
    PyObject *group_name = PyUnicode_DecodeUTF8((const char *)group.at, group.size, NULL);
    PyObject *id_text = group_name == NULL ? NULL : PyUnicode_DecodeUTF8((const char *)id.at, id.size, NULL);
    if (id_text == NULL) {
        Py_DecRef(group_name);
        return nothing_unless_failed();
    }
    return Py_BuildValue(
        "(iiOLLNNO)", (int)(int32_t)get32(whole.at + 9), (int)frame_flag, commit, (long long)offset,
        (long long)position, group_name, id_text, is_check ? Py_True : Py_False);
}

static int has(Bytes in, const char *mark) {
    size_t size = strlen(mark);
    const byte *at = in.at, *end = in.at + in.size;
    while ((size_t)(end - at) >= size && (at = memchr(at, *mark, (size_t)(end - at) - size + 1)) != NULL) {
        if (!memcmp(at, mark, size)) return 1;
        at++;
    }
    return 0;
}

PyDoc_STRVAR(
    stored_form_doc, "Return the properties of a plain send as they are stored, with what the broker adds, and whether it "
                     "goes by itself; None if it goes the long way.");

static PyObject *stored_form(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes said, added;
    if (!has_args("stored_form", count, 2) || !bytes_of(args[0], &said) || !bytes_of(args[1], &added)) return NULL;
    int is_marked = has(said, "TRA");
    if ((is_marked && (has(said, "TRACE") || !has(said, "TRAN_MSG\x01true\x02") || !has(said, "PGROUP\x01"))) ||
        !has(said, "UNIQ_KEY\x01") || has(said, "CLUSTER") || has(said, "MSG_REGION") || has(said, "WAIT\x01" "false"))
        Py_RETURN_NONE;
    int is_open = said.at[said.size - 1] != 2;
    PyObject *made = PyBytes_FromStringAndSize(NULL, said.size + is_open + added.size);
    if (made == NULL) return NULL;
    byte *at = put((byte *)PyBytes_AsString(made), said.at, (size_t)said.size);
    if (is_open) *at++ = 2;
    put(at, added.at, (size_t)added.size);
    PyObject *alone = is_marked || has(said, "DEL") ? Py_True : Py_False;
    return Py_BuildValue("(NO)", made, alone);
}

/* Answers to sends (server/send_reply.py). */

static byte *put_field(byte *at, const char *name, const byte *value, size_t size) {
    size_t length = strlen(name);
    at = put(put16(at, (uint32_t)length), name, length);
    return put(put32(at, (uint32_t)size), value, size);
}

static size_t write_number(byte *into, int64_t value) {
    byte digits[20];
    size_t size = 0, written = 0;
    do digits[size++] = (byte)('0' + value % 10);
    while (value /= 10);
    while (size) into[written++] = digits[--size];
    return written;
}

PyDoc_STRVAR(
    send_reply_doc,
    "Return the answer to a send, with a binary header: language, version, last fields, host in hex, opaque, position, "
    "queue id, queue offset, id, further fields.");

static PyObject *send_reply(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int32_t language, version, opaque;
    int64_t position, queue_id, queue_offset;
    Bytes last, host, more;
    Py_ssize_t key_size = 0;
    const char *key = "";
    if (!has_args("send_reply", count, 10) || !int32_of(args[0], &language) || !int32_of(args[1], &version) ||
        !bytes_of(args[2], &last) || !bytes_of(args[3], &host) || !int32_of(args[4], &opaque) ||
        !int64_of(args[5], &position) || !int64_of(args[6], &queue_id) || !int64_of(args[7], &queue_offset) ||
        !bytes_of(args[9], &more))
        return NULL;
    if (args[8] != Py_None && (key = PyUnicode_AsUTF8AndSize(args[8], &key_size)) == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (position < 0 || queue_id < 0 || queue_offset < 0 || host.size > 64 || key_size > 255 || last.size > 4096 ||
        more.size > 4096)
        Py_RETURN_NONE;
    byte message_id[80], queue_digits[20], offset_digits[20];
    memcpy(message_id, host.at, (size_t)host.size);
    for (int digit = 0; digit < 16; digit++)
        message_id[host.size + digit] = (byte)"0123456789ABCDEF"[(uint64_t)position >> (60 - 4 * digit) & 15];
    size_t id_size = (size_t)host.size + 16, queue_size = write_number(queue_digits, queue_id);
    size_t offset_size = write_number(offset_digits, queue_offset);
    size_t ext = 4 * 6 + strlen("msgId" "queueId" "queueOffset" "transactionId") + id_size + queue_size + offset_size +
                 (size_t)key_size + (size_t)last.size + (size_t)more.size;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(29 + ext));
    if (made == NULL) return NULL;
    byte *at = (byte *)PyBytes_AsString(made);
    at = put32(at, (uint32_t)(25 + ext));
    at = put32(at, (uint32_t)(21 + ext) | 1u << 24);
    at = put16(at, 0);
    *at++ = (byte)language;
    at = put16(at, (uint32_t)version);
    at = put32(at, (uint32_t)opaque);
    at = put32(at, 1);
    at = put32(at, 0);
    at = put32(at, (uint32_t)ext);
    at = put_field(at, "msgId", message_id, id_size);
    at = put_field(at, "queueId", queue_digits, queue_size);
    at = put_field(at, "queueOffset", offset_digits, offset_size);
    at = put_field(at, "transactionId", (const byte *)key, (size_t)key_size);
    put(put(at, last.at, (size_t)last.size), more.at, (size_t)more.size);
    return made;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, name##_doc}
#define ONE(name) {#name, name, METH_O, name##_doc}

static PyMethodDef methods[] = {
    FAST(all_stand_here), FAST(entries), FAST(hashes), FAST(keys_alike), FAST(put_entries), FAST(record), FAST(records), FAST(send_reply),
    FAST(split_batch), FAST(stored_form), ONE(index_hash), ONE(read_end), ONE(read_send), ONE(usual_facts), ONE(usual_record), {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    make_crc_table();
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots_of_module[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "escapement_mq_fast", "Compiled twins of some functions of escapement-mq.", 0, methods,
    slots_of_module, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_escapement_mq_fast(void) { return PyModuleDef_Init(&definition); }
