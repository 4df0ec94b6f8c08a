/* What is stored of timers (engine/timer/parking.py), units of the timer log and slots of the wheel
   (engine/timer/index.py), and handles of timers (rocketmq/ids.py). */

#include "fast.h"

#include <stdio.h>

enum { SLOT_BYTES = 32, UNIT_BYTES = 52, BLOCK_BYTES = 1 << 14, PLAIN = 1, CHECK = 63, FIELDS = 5 };

#define MOST_OFFSET ((int64_t)1 << 46)
#define MOST_POSITION ((int64_t)1 << 61)
#define MOST_NOW ((int64_t)1 << 62)

/* The moment that usual properties ask for; -1 if it is over, or later than the last that may be. */
static int64_t moment_of(const Said *said, int64_t now_ms, int64_t latest_ms) {
    int64_t value = 0;
    for (Py_ssize_t at = 0; at < said->digits.size; at++) value = value * 10 + (said->digits.at[at] - '0');
    if (is_named(said->moment.at, said->moment.size, "TIMER_DELAY_SEC")) value = now_ms + value * 1000;
    else if (is_named(said->moment.at, said->moment.size, "TIMER_DELAY_MS")) value = now_ms + value;
    return value > now_ms && value <= latest_ms ? value : -1;
}

/* Properties as they are stored: those sent, RocketMQ's second, where it goes, and when. */
static PyObject *parked(Bytes sent, Bytes tail, int64_t due_ms) {
    char second[24], due[24];
    int second_size = snprintf(second, sizeof second, "%lld", (long long)((due_ms - 1) / 1000 * 1000));
    int due_size = snprintf(due, sizeof due, "%lld\x02", (long long)due_ms);
    PyObject *made = PyBytes_FromStringAndSize(NULL, sent.size + 13 + second_size + tail.size + due_size);
    if (made == NULL) return NULL;
    byte *at = put(put((byte *)PyBytes_AsString(made), sent.at, (size_t)sent.size), "TIMER_OUT_MS\x01", 13);
    put(put(put(at, second, (size_t)second_size), tail.at, (size_t)tail.size), due, (size_t)due_size);
    return made;
}

PyDoc_STRVAR(
    parked_timers_doc,
    "Return what is stored of timers, the moments they ask for, their unique keys, and the tags and keys of each or None: "
    "properties, what theirs end with, now and the last moment that may be. None if one is not as usual.");

static PyObject *parked_timers(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column raws, tails;
    int64_t now_ms, latest_ms;
    if (!has_args("parked_timers", count, 4) || !column_of(args[0], -1, &raws)) return NULL;
    Py_ssize_t rows = rows_of(raws);
    if (!column_of(args[1], rows, &tails) || !int64_of(args[2], &now_ms) || !int64_of(args[3], &latest_ms)) return NULL;
    if (now_ms < 0 || now_ms > MOST_NOW) {
        PyErr_SetString(PyExc_ValueError, "this moment is outside of what is understood");
        return NULL;
    }
    PyObject *stored = PyList_New(rows), *dues = PyList_New(rows), *keys = PyList_New(rows), *others = PyList_New(rows);
    int is_there = stored != NULL && dues != NULL && keys != NULL && others != NULL, has_others = 0;
    Py_ssize_t row = 0;
    for (; is_there && row < rows; row++) {
        Bytes sent, tail;
        Said said;
        int is_usual = bytes_of(cell(raws, row), &sent) && bytes_of(cell(tails, row), &tail) && usual_properties(sent, 0, &said) &&
                   said.moment.at != NULL && !said.names_half && said.unique_key.size > 0;
        int64_t due_ms = is_usual ? moment_of(&said, now_ms, latest_ms) : -1;
        if (due_ms < 0) break;
        has_others |= said.tags.at != NULL || said.keys.at != NULL;
        /* a place of a list that is left empty is none where something failed: the list goes with it */
        is_there = put_cell(stored, row, parked(sent, tail, due_ms)) && put_cell(dues, row, PyLong_FromLongLong(due_ms)) &&
                   put_cell(keys, row, text_or_none(said.unique_key)) &&
                   put_cell(others, row, Py_BuildValue("(NN)", text_or_none(said.tags), text_or_none(said.keys)));
    }
    PyObject *made =
        is_there && row == rows ? Py_BuildValue("(OOOO)", stored, dues, keys, has_others ? others : Py_None) : NULL;
    Py_DecRef(stored);
    Py_DecRef(dues);
    Py_DecRef(keys);
    Py_DecRef(others);
    if (made != NULL || PyErr_Occurred()) return made;
    Py_RETURN_NONE;
}

/* What is read of one timer, and the place of its second in the wheel. */
typedef struct {
    int64_t offset, position, due_ms, second, place;
    int32_t size, topic_hash;
} Timer;

/* Read a timer: offset, position, size, due moment, topic, and more. 0 with an error, -1 if it is not as usual. */
static int timer_of(PyObject *row, PyObject *hashes, int64_t slots, Timer *timer) {
    if (!PyTuple_Check(row) || PyTuple_Size(row) < FIELDS) {
        PyErr_SetString(PyExc_TypeError, "a timer is a tuple of five and more");
        return 0;
    }
    if (!int64_of(PyTuple_GetItem(row, 0), &timer->offset) || !int64_of(PyTuple_GetItem(row, 1), &timer->position) ||
        !int32_of(PyTuple_GetItem(row, 2), &timer->size) || !int64_of(PyTuple_GetItem(row, 3), &timer->due_ms))
        return 0;
    PyObject *topic_hash = PyDict_GetItemWithError(hashes, PyTuple_GetItem(row, 4));
    if (topic_hash == NULL) return PyErr_Occurred() ? 0 : -1;
    if (!int32_of(topic_hash, &timer->topic_hash)) return 0;
    if (timer->offset < 0 || timer->offset > MOST_OFFSET || timer->position < 0 || timer->position > MOST_POSITION ||
        timer->due_ms < 1)
        return -1;
    timer->second = (timer->due_ms - 1) / 1000;
    timer->place = timer->second % slots * SLOT_BYTES;
    return 1;
}

/* Put a unit at the end of its second's chain, and write it. */
static byte *put_unit(byte *at, const Timer *timer, byte *slot, int64_t unit, int64_t write_ms) {
    int64_t previous = -1, number = 1, rest_ms = timer->due_ms - timer->second * 1000;
    if (get64(slot) == timer->second) {
        previous = get64(slot + 16);
        number = (int64_t)get32(slot + 24) + 1;
    } else {
        put64(put64(slot, (uint64_t)timer->second), (uint64_t)unit);
        put32(slot + 28, 0);
    }
    put32(put64(slot + 16, (uint64_t)unit), (uint32_t)number);
    int64_t check = (timer->offset + timer->position + rest_ms) % CHECK;
    at = put32(put64(put32(at, UNIT_BYTES), (uint64_t)previous), PLAIN);
    at = put32(put64(at, (uint64_t)write_ms), (uint32_t)(timer->second * 1000 - write_ms));
    at = put32(put32(put64(at, (uint64_t)timer->position), (uint32_t)timer->size), (uint32_t)timer->topic_hash);
    return put64(at, (uint64_t)(timer->offset << 16 | check << 10 | rest_ms));
}

static int looks_usual(const byte *slot, const Timer *timer, int64_t write_ms) {
    int64_t own = get64(slot), delay_ms = timer->second * 1000 - write_ms;
    return (!own || own == timer->second) && timer->second && get32(slot + 24) < INT32_MAX && delay_ms >= INT32_MIN &&
           delay_ms <= INT32_MAX;
}

PyDoc_STRVAR(
    timer_units_doc,
    "Put timers into the slots of the wheel: slots, a byte for each block of them that is written, timers, hashes of their "
    "topics, position of the first unit, moment in whole seconds (ms), and the seconds between which all must lie. Return "
    "their units, and the first and the last second; None, and nothing was changed, if one lies elsewhere, a slot is "
    "another second's, or anything is not as usual.");

static PyObject *timer_units(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Column timers;
    int64_t unit, write_ms, begin, end, low = INT64_MAX, high = -1;
    if (!has_args("timer_units", count, 8) || !column_of(args[2], -1, &timers) || !int64_of(args[4], &unit) ||
        !int64_of(args[5], &write_ms) || !int64_of(args[6], &begin) || !int64_of(args[7], &end))
        return NULL;
    if (!PyDict_Check(args[3]) || unit < 0 || write_ms < 0) {
        PyErr_SetString(PyExc_ValueError, "hashes are a dictionary, and nothing stands before 0");
        return NULL;
    }
    Py_buffer slots, written;
    if (PyObject_GetBuffer(args[0], &slots, PyBUF_WRITABLE) < 0) return NULL;
    if (PyObject_GetBuffer(args[1], &written, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&slots);
        return NULL;
    }
    PyObject *made = NULL, *units = NULL;
    Py_ssize_t rows = rows_of(timers), places = slots.len / SLOT_BYTES;
    Timer timer;
    int is_usual = 1;
    if (!places || written.len < (slots.len + BLOCK_BYTES - 1) / BLOCK_BYTES) {
        PyErr_SetString(PyExc_ValueError, "there are no slots, or too few bytes for their blocks");
        is_usual = 0;
    }
    /* all of it is looked at before a slot changes */
    for (Py_ssize_t row = 0; is_usual > 0 && row < rows; row++) {
        is_usual = timer_of(cell(timers, row), args[3], places, &timer);
        if (is_usual > 0 && !looks_usual((byte *)slots.buf + timer.place, &timer, write_ms)) is_usual = -1;
        if (is_usual > 0 && timer.second < low) low = timer.second;
        if (is_usual > 0 && timer.second > high) high = timer.second;
    }
    /* two that are a turn apart would want one slot */
    if (is_usual > 0 && (rows == 0 || high - low >= places || low <= begin || high >= end)) is_usual = -1;
    if (is_usual > 0 && (units = PyBytes_FromStringAndSize(NULL, UNIT_BYTES * rows)) != NULL) {
        byte *at = (byte *)PyBytes_AsString(units);
        for (Py_ssize_t row = 0; row < rows; row++, unit += UNIT_BYTES) {
            timer_of(cell(timers, row), args[3], places, &timer);
            at = put_unit(at, &timer, (byte *)slots.buf + timer.place, unit, write_ms);
            ((byte *)written.buf)[timer.place / BLOCK_BYTES] = 1;
        }
        made = Py_BuildValue("(NLL)", units, (long long)low, (long long)high);
    }
    PyBuffer_Release(&slots);
    PyBuffer_Release(&written);
    if (made != NULL || PyErr_Occurred()) return made;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(handle_doc, "Return the handle of a timer: topic, broker, moment (ms), unique key.");

static int add_text(Bytes *texts, PyObject *text) {
    texts->at = (const byte *)PyUnicode_AsUTF8AndSize(text, &texts->size);
    return texts->at != NULL;
}

static PyObject *handle(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    Bytes topic, broker, moment, key;
    if (!has_args("handle", count, 4)) return NULL;
    if (!PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "a moment is a number");
        return NULL;
    }
    PyObject *digits = PyObject_Str(args[2]);
    if (digits == NULL) return NULL;
    PyObject *raw = NULL, *made = NULL;
    if (!add_text(&topic, args[0]) || !add_text(&broker, args[1]) || !add_text(&moment, digits) || !add_text(&key, args[3]))
        goto end;
    raw = PyBytes_FromStringAndSize(NULL, 6 + topic.size + broker.size + moment.size + key.size);
    if (raw == NULL) goto end;
    byte *from = (byte *)PyBytes_AsString(raw), *to = put(put(from, "v1 ", 3), topic.at, (size_t)topic.size);
    to = put(put(to, " ", 1), broker.at, (size_t)broker.size);
    to = put(put(to, " ", 1), moment.at, (size_t)moment.size);
    to = put(put(to, " ", 1), key.at, (size_t)key.size);
    size_t size = (size_t)(to - from);
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((size + 2) / 3 * 4));
    if (made == NULL) goto end;
    byte *letter = (byte *)PyBytes_AsString(made);
    for (size_t at = 0; at < size; at += 3) {
        size_t left = size - at;
        uint32_t bits = (uint32_t)from[at] << 16 | (left > 1 ? (uint32_t)from[at + 1] << 8 : 0) | (left > 2 ? from[at + 2] : 0);
        *letter++ = (byte)letters[bits >> 18];
        *letter++ = (byte)letters[bits >> 12 & 63];
        *letter++ = left > 1 ? (byte)letters[bits >> 6 & 63] : '=';
        *letter++ = left > 2 ? (byte)letters[bits & 63] : '=';
    }
end:
    Py_DecRef(raw);
    Py_DecRef(digits);
    return made;
}

PyMethodDef timer_functions[] = {FAST(handle), FAST(parked_timers), FAST(timer_units), NO_MORE};
