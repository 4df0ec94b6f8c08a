/* Properties (engine/message_header.py, server/processors/send.py). */

#include "fast.h"

enum { MOST_MOMENT_DIGITS = 15 };

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

/* Take a property that begins as those of timers do; 0 if it is none of a plain timer, or not the first. */
static int asks_for_moment(Bytes name, Bytes value, Said *said) {
    int is_moment = is_named(name.at, name.size, "TIMER_DELAY_SEC") || is_named(name.at, name.size, "TIMER_DELAY_MS") ||
                    is_named(name.at, name.size, "TIMER_DELIVER_MS");
    if (!is_moment || said->moment.at != NULL || value.size < 1 || value.size > MOST_MOMENT_DIGITS) return 0;
    for (Py_ssize_t at = 0; at < value.size; at++)
        if (!is_digit(value.at[at])) return 0;
    said->moment = name;
    said->digits = value;
    return 1;
}

int usual_properties(Bytes text, int is_open, Said *said) {
    memset(said, 0, sizeof *said);
    if (!text.size || (text.at[text.size - 1] != 2) != is_open || !is_ascii(text)) return 0;
    for (const byte *at = text.at, *end = at + text.size; at < end;) {
        const byte *stop = memchr(at, 2, (size_t)(end - at));
        if (stop == NULL) stop = end;
        const byte *mark = memchr(at, 1, (size_t)(stop - at));
        if (mark == NULL || mark == at) return 0;
        Py_ssize_t size = mark - at;
        Bytes value = {mark + 1, stop - mark - 1};
        if (is_named(at, size, "UNIQ_KEY")) said->unique_key = value;
        else if (is_named(at, size, "TAGS")) said->tags = value;
        else if (is_named(at, size, "KEYS")) said->keys = value;
        else if (is_named(at, size, "TRAN_MSG")) said->names_half = 1;
        else if (begins(at, size, "TIMER_D")) {
            if (!asks_for_moment((Bytes){at, size}, value, said)) return 0;
        } else if (is_named(at, size, "DELAY") || begins(at, size, "ESC_") || is_named(at, size, "POP_CK") ||
                   begins(at, size, "__CRC32#"))
            return 0;
        at = stop + 1;
    }
    return 1;
}

PyDoc_STRVAR(
    usual_facts_doc,
    "Return the Facts of well-formed ASCII properties in which nothing needs a closer look, but for one moment in digits; "
    "else None.");

static PyObject *usual_facts(PyObject *module, PyObject *raw) {
    Bytes text;
    Said said;
    if (!bytes_of(raw, &text)) return NULL;
    if (!usual_properties(text, 0, &said)) Py_RETURN_NONE;
    PyObject *key = text_or_none(said.unique_key), *tags = text_or_none(said.tags), *keys = text_or_none(said.keys);
    /* what could not be made ends the building, and what was made before it */
    if (said.moment.at == NULL) return Py_BuildValue("(ONNNisO)", raw, key, tags, keys, 0, "", Py_None);
    return Py_BuildValue(
        "(ONNNiN(NN))", raw, key, tags, keys, 0, text_or_none(text), text_or_none(said.moment), text_or_none(said.digits));
}

PyDoc_STRVAR(
    stored_form_doc, "Return the properties of a plain send as they are stored, with what the broker adds, and whether it "
                     "goes by itself, and whether it is a timer; None if it goes the long way.");

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
    int is_timer = has(said, "TIMER_DE");
    int is_alone = is_marked || has(said, "DELAY\x01") || has(said, "TIMER_DEL_") || (is_timer && has(said, "ESC_"));
    return Py_BuildValue("(NOO)", made, is_alone ? Py_True : Py_False, is_timer ? Py_True : Py_False);
}

PyMethodDef property_functions[] = {FAST(keys_alike), FAST(stored_form), ONE(usual_facts), NO_MORE};
