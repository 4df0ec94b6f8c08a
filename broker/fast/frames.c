/* Headers of sends and of decisions about halves, and answers (rocketmq/sends.py, rocketmq/end_transaction.py, server/send_reply.py). */

#include "fast.h"

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
    read_send_doc, "Return what a plain send, or a batch, with a binary header says, as SendShortcut.read does; None if anything about "
                   "it is not as usual.");

static PyObject *read_send(PyObject *module, PyObject *frame) {
    Bytes whole, fields[14];
    if (!bytes_of(frame, &whole)) return NULL;
    if (whole.size < 25 || whole.at[0] != 1 || (get16(whole.at + 4) != 310 && get16(whole.at + 4) != 320)) Py_RETURN_NONE;
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
    int is_batch = get16(whole.at + 4) == 320 || is_named(m.at, m.size, "true");
    if (FIELD('a').at == NULL || topic.at == NULL || properties.at == NULL || queue_id < 0 || sys_flag < 0 ||
        born_ms < 0 || flag < 0 || l.size || (d.size && digits_of(d.at, d.size, 9) < 0) ||
        (j.size && !is_named(j.at, j.size, "0")) || (m.size && !is_named(m.at, m.size, "true") && !is_named(m.at, m.size, "false")))
        Py_RETURN_NONE;
#undef FIELD
    return Py_BuildValue(
        "(iis#LLLLy#y#O)", (int)(int32_t)get32(whole.at + 9), (int)frame_flag, (const char *)topic.at, topic.size,
        (long long)queue_id, (long long)sys_flag, (long long)born_ms, (long long)flag, (const char *)properties.at,
        properties.size, (const char *)whole.at + body_at, whole.size - body_at,
        is_batch ? Py_True : Py_False);
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

PyMethodDef frame_functions[] = {ONE(read_end), ONE(read_send), FAST(send_reply), NO_MORE};
