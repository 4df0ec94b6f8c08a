/* Twins of a few functions of broker/, compiled: what they say stands in Python beside each use, and decides.

   Whatever is not as usual is left to Python: a function then returns None, and changes nothing. Nothing is kept
   between two calls; a batch that was read is the caller's. All bytes come from outside, so each length is held against
   what is there before it is used.
   Only Python's stable interface is used: one build serves 3.11 and everything after it. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

static inline int64_t get64(const byte *at) { return (int64_t)((uint64_t)get32(at) << 32 | get32(at + 4)); }

static inline int is_digit(byte letter) { return letter >= '0' && letter <= '9'; }

/* Fetch what is written to soon. */
#if defined(__GNUC__)
#define FETCH(at) __builtin_prefetch(at, 1)
#else
#define FETCH(at) ((void)(at))
#endif

static inline byte *put_hex(byte *at, const byte *from, Py_ssize_t size) {
    for (; size > 0; size--, from++) {
        *at++ = (byte)"0123456789ABCDEF"[*from >> 4];
        *at++ = (byte)"0123456789ABCDEF"[*from & 15];
    }
    return at;
}

/* A hexadecimal digit's value; -1 if it is none. */
static inline int digit_of(byte letter) {
    if (is_digit(letter)) return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

typedef struct {
    const byte *at;
    Py_ssize_t size;
} Bytes;

/* Arguments. */

static inline int has_args(const char *name, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, given);
    return 0;
}

static inline int int32_of(PyObject *object, int32_t *value) {
    long long read = PyLong_AsLongLong(object);
    if (read == -1 && PyErr_Occurred()) return 0;
    if (read < INT32_MIN || read > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a number has more than 32 bits");
        return 0;
    }
    *value = (int32_t)read;
    return 1;
}

static inline int int64_of(PyObject *object, int64_t *value) {
    long long read = PyLong_AsLongLong(object);
    if (read == -1 && PyErr_Occurred()) return 0;
    *value = read;
    return 1;
}

static inline int bytes_of(PyObject *object, Bytes *bytes) {
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

static inline int column_of(PyObject *object, Py_ssize_t rows, Column *column) {
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

static inline Py_ssize_t rows_of(Column column) {
    return column.is_list ? PyList_Size(column.rows) : PyTuple_Size(column.rows);
}

static inline PyObject *cell(Column column, Py_ssize_t row) { /* borrowed */
    return column.is_list ? PyList_GetItem(column.rows, row) : PyTuple_GetItem(column.rows, row);
}

/* Put what was made into a new list; 0 if it could not be made. */
static inline int put_cell(PyObject *rows, Py_ssize_t row, PyObject *made) {
    return made != NULL && PyList_SetItem(rows, row, made) == 0;
}

/* A column of numbers: a list, a tuple, or what memoryview.cast("q") gives. */
typedef struct {
    Column column;
    Py_buffer view;
    Py_ssize_t rows;
} Numbers;

static inline int numbers_of(PyObject *object, Py_ssize_t rows, Numbers *numbers) {
    memset(numbers, 0, sizeof *numbers);
    if (PyList_Check(object) || PyTuple_Check(object)) {
        if (!column_of(object, rows, &numbers->column)) return 0;
        numbers->rows = rows_of(numbers->column);
        return 1;
    }
    if (PyObject_GetBuffer(object, &numbers->view, PyBUF_ND | PyBUF_FORMAT) < 0) return 0;
    numbers->rows = numbers->view.len / 8;
    int is_right = numbers->view.format != NULL && !strcmp(numbers->view.format, "q");
    if (is_right && (rows < 0 || numbers->rows == rows)) return 1;
    PyErr_SetString(PyExc_ValueError, is_right ? "columns have different lengths" : "a number has 64 bits");
    PyBuffer_Release(&numbers->view);
    return 0;
}

static inline int number_at(const Numbers *numbers, Py_ssize_t row, int64_t *value) {
    if (numbers->view.obj == NULL) return int64_of(cell(numbers->column, row), value);
    *value = ((const int64_t *)numbers->view.buf)[row];
    return 1;
}

static inline void release_numbers(Numbers *numbers) { PyBuffer_Release(&numbers->view); }

/* Functions of the module: each file has a table of its own. */

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, name##_doc}
#define ONE(name) {#name, name, METH_O, name##_doc}
#define NO_MORE {NULL, NULL, 0, NULL}

extern PyMethodDef batch_functions[], file_functions[], frame_functions[], index_functions[], property_functions[], record_functions[],
    run_functions[], timer_functions[];

/* Checksums (crc.c). */

void make_crc_tables(void);

/* CRC-32 (IEEE 802.3, reflected), as zlib.crc32. */
uint32_t crc32_of(const byte *at, size_t size);

/* Records (layout.py). */

enum {
    CRC_BYTES = 20, MOST_PROPERTIES = 0xFFFF - CRC_BYTES, IPV4 = 8, IPV6 = 20, BORN_IPV6 = 0x10, STORE_IPV6 = 0x20,
    LEAST_RECORD = 92,
};

#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu
#define MASK31 0x7FFFFFFFu

static inline byte *put_crc(byte *at, uint32_t crc) {
    crc &= MASK31;
    at = put(at, "__CRC32#\x01", 9);
    for (int pair = 0; pair < 5; pair++, crc /= 100) {
        uint32_t two = crc % 100;
        *at++ = (byte)('0' + two % 10);
        *at++ = (byte)('0' + two / 10);
    }
    *at++ = 2;
    return at;
}

static inline byte *put_crc_property(byte *begin, byte *end) { return put_crc(end, crc32_of(begin, (size_t)(end - begin))); }

static inline Py_ssize_t record_bytes(Bytes topic, Bytes body, Bytes properties, Py_ssize_t hosts) {
    return 72 + hosts + body.size + topic.size + (topic.size <= 127 ? 3 : 4) + properties.size + CRC_BYTES;
}

/* Tell whether lengths fit their fields; the sizes of what is kept were held against their limits long before. */
static inline int fits(Bytes topic, Bytes body, Bytes properties) {
    if (topic.size <= 0xFFFF && properties.size <= MOST_PROPERTIES && body.size <= INT32_MAX - 0x20000) return 1;
    PyErr_SetString(PyExc_OverflowError, "a name, a body or the properties are too long for a record");
    return 0;
}

/* What is written into a record of a short name and short addresses; `same` are its 48 bytes from the system flags to
   the prepared position. The properties get their last separator here where they are open. */
typedef struct {
    Bytes name, body, properties;
    const byte *same;
    int64_t offset, position;
    int32_t size, queue_id, flag;
    int is_open;
} Row;

byte *put_row(byte *at, const Row *row);

static inline byte *put_entry(byte *at, int64_t position, int32_t size, int64_t code) {
    return put64(put32(put64(at, (uint64_t)position), (uint32_t)size), (uint64_t)code);
}

/* Hashes of keys (index.c). */

/* The hash of ASCII, four letters a step: one by one each multiplication waits for the one before it. */
static inline uint32_t hash_on(uint32_t hash, Bytes letters) {
    const byte *at = letters.at, *end = at + letters.size;
    for (; end - at >= 4; at += 4) hash = hash * 923521u + at[0] * 29791u + at[1] * 961u + at[2] * 31u + at[3];
    for (; at < end; at++) hash = hash * 31 + *at;
    return hash;
}

/* What stands in the index: Math.abs of Java, without a sign for the one that has none. */
static inline int32_t absolute(uint32_t hash) { return (int32_t)(hash < 0x80000000u ? hash : (0u - hash) & MASK31); }

static inline int parts_words(byte letter) { return (letter >= 9 && letter <= 13) || (letter >= 28 && letter <= 32); }

/* Take the next word of some keys, as str.split() does; return whether there is one. */
static inline int next_word(Bytes *keys, Bytes *word) {
    const byte *at = keys->at, *end = at + keys->size;
    while (at < end && parts_words(*at)) at++;
    *word = (Bytes){at, 0};
    while (at < end && !parts_words(*at)) at++;
    word->size = at - word->at;
    *keys = (Bytes){at, end - at};
    return word->size > 0;
}

/* Text. */

static inline int begins(const byte *at, Py_ssize_t size, const char *with) {
    size_t length = strlen(with);
    return (size_t)size >= length && !memcmp(at, with, length);
}

static inline int is_named(const byte *at, Py_ssize_t size, const char *name) {
    return (size_t)size == strlen(name) && begins(at, size, name);
}

static inline int has(Bytes in, const char *mark) {
    size_t size = strlen(mark);
    const byte *at = in.at, *end = in.at + in.size;
    while ((size_t)(end - at) >= size && (at = memchr(at, *mark, (size_t)(end - at) - size + 1)) != NULL) {
        if (!memcmp(at, mark, size)) return 1;
        at++;
    }
    return 0;
}

static inline int is_ascii(Bytes text) {
    uint64_t seen = 0, letters;
    Py_ssize_t at = 0;
    for (; at + 8 <= text.size; at += 8) {
        memcpy(&letters, text.at + at, 8);
        seen |= letters;
    }
    for (; at < text.size; at++) seen |= text.at[at];
    return !(seen & 0x8080808080808080u);
}

/* What counts of usual properties (properties.c). */
typedef struct {
    Bytes unique_key, tags, keys;
    Bytes moment, digits; /* the name of the one property that asks for a moment, and what it says */
    int names_half;       /* there is a TRAN_MSG */
} Said;

/* Tell whether properties, which end with a separator unless they are open, are ASCII and well-formed, and nothing in
   them needs a closer look, but for one moment in digits. */
int usual_properties(Bytes text, int is_open, Said *said);

static inline PyObject *text_or_none(Bytes value) {
    if (value.at == NULL) Py_RETURN_NONE;
    return PyUnicode_DecodeASCII((const char *)value.at, value.size, NULL);
}

static inline PyObject *nothing_unless_failed(void) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* Headers of requests (headers.c). */

/* Java's client says those of a signed send twice in a binary header. */
enum { MOST_FIELDS = 32 };

/* `escapes`: how many characters of the value stand there as \\u00XX. */
typedef struct {
    Bytes name, value;
    int escapes;
} Field;

typedef struct {
    Bytes body;
    int32_t code, flag, opaque;
    int is_json, count;
    Field fields[MOST_FIELDS];
} Header;

/* Read the header of a frame without its length; return whether it is as usual. */
int header_of(Bytes frame, Header *header);
