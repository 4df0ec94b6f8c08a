/* Headers of sends and of decisions about halves, and answers (rocketmq/sends.py, rocketmq/end_transaction.py, server/send_reply.py). */

#include "fast.h"

/* The digits of a field as a number; -1 if there are none, more than `most`, or anything else. */
static int64_t digits_of(Bytes field, Py_ssize_t most) {
    int64_t value = 0;
    if (!field.size || field.size > most) return -1;
    for (Py_ssize_t at = 0; at < field.size; at++) {
        if (!is_digit(field.at[at])) return -1;
        value = value * 10 + (field.at[at] - '0');
    }
    return value;
}

static PyObject *without_escapes(const Field *field) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, field->value.size - 5 * field->escapes);
    if (made == NULL) return NULL;
    byte *into = (byte *)PyBytes_AsString(made);
    for (const byte *at = field->value.at, *end = at + field->value.size; at < end; at++)
        if (*at == '\\' && field->escapes) {
            *into++ = (byte)(digit_of(at[4]) << 4 | digit_of(at[5]));
            at += 5;
        } else *into++ = *at;
    return made;
}

static int is_truth(Bytes text) { return is_named(text.at, text.size, "true") || is_named(text.at, text.size, "false"); }

/* A send as usual: its header, its fields by their letters, those of who signed it, and what they say. */
typedef struct {
    Header header;
    const Field *fields[14], *signers[3];
    int64_t queue_id, sys_flag, born_ms, flag;
    int is_batch;
} Send;

/* In the order of their names, in which they are signed: before all letters. */
static const char *const SIGNERS[] = {"AccessKey", "SecurityToken", "Signature"};
enum { USER, TOKEN, SIGNATURE };

static Bytes value_of(const Field *field) { return field == NULL ? (Bytes){NULL, 0} : field->value; }

static Bytes said(const Send *send, char letter) { return value_of(send->fields[letter - 'a']); }

static const Field **place_of(Send *send, const Field *field, int is_signed) {
    Bytes name = field->name;
    if (name.size == 1 && name.at[0] >= 'a' && name.at[0] <= 'n') return &send->fields[name.at[0] - 'a'];
    for (int signer = USER; is_signed && signer <= SIGNATURE; signer++)
        if (is_named(name.at, name.size, SIGNERS[signer])) return &send->signers[signer];
    return NULL;
}

/* Sort the fields of a send; a name may be said again with the same value where it is signed, as Java's client does. */
static int sort_fields(Send *send, int is_signed) {
    for (int number = 0; number < send->header.count; number++) {
        const Field *field = &send->header.fields[number], **place = place_of(send, field, is_signed);
        if (place == NULL || (field->escapes && place != &send->fields['i' - 'a'])) return 0;
        if (*place == NULL) *place = field;
        else if (!is_signed || (*place)->value.size != field->value.size ||
                 memcmp((*place)->value.at, field->value.at, (size_t)field->value.size))
            return 0;
    }
    return 1;
}

/* Read a send; return whether everything about it is as usual. */
static int send_of(Bytes frame, Send *send, int is_signed) {
    const Header *header = &send->header;
    memset(send->fields, 0, sizeof send->fields);
    memset(send->signers, 0, sizeof send->signers);
    if (!header_of(frame, &send->header) || (header->code != 310 && (is_signed || header->code != 320)) ||
        header->flag & ~2 || !sort_fields(send, is_signed))
        return 0;
    for (const char *name = "abcn"; *name; name++)
        if (!is_ascii(said(send, *name))) return 0;
    Bytes topic = said(send, 'b'), d = said(send, 'd'), j = said(send, 'j'), k = said(send, 'k'), m = said(send, 'm');
    send->queue_id = digits_of(said(send, 'e'), 9), send->sys_flag = digits_of(said(send, 'f'), 1);
    send->born_ms = digits_of(said(send, 'g'), 13), send->flag = digits_of(said(send, 'h'), 1);
    send->is_batch = header->code == 320 || is_named(m.at, m.size, "true");
    if (send->fields[0] == NULL || topic.at == NULL || send->fields['i' - 'a'] == NULL || send->queue_id < 0 ||
        send->sys_flag < 0 || send->born_ms < 0 || send->flag < 0 || said(send, 'l').size ||
        (d.size && digits_of(d, 9) < 0) || (j.size && !is_named(j.at, j.size, "0")) || (m.size && !is_truth(m)))
        return 0;
    /* as read_json_send leaves them to the long way */
    return !header->is_json ||
           !(begins(topic.at, topic.size, "%") || send->fields['l' - 'a'] != NULL || (k.size && !is_truth(k)));
}

static PyObject *made_of(const Send *send) {
    const Header *header = &send->header;
    Bytes topic = said(send, 'b');
    return Py_BuildValue(
        "(iis#LLLLNy#O)", (int)header->opaque, (int)header->flag, (const char *)topic.at, topic.size,
        (long long)send->queue_id, (long long)send->sys_flag, (long long)send->born_ms, (long long)send->flag,
        without_escapes(send->fields['i' - 'a']), (const char *)header->body.at, header->body.size,
        send->is_batch ? Py_True : Py_False);
}

PyDoc_STRVAR(
    read_send_doc, "Return what a plain send, or a batch, says, as SendShortcut.read and read_json_send do; None if "
                   "anything about it is not as usual.");

static PyObject *read_send(PyObject *module, PyObject *frame) {
    Bytes whole;
    Send send;
    if (!bytes_of(frame, &whole)) return NULL;
    if (!send_of(whole, &send, 0)) Py_RETURN_NONE;
    return made_of(&send);
}

/* What a signature is of: the values of all fields but its own, in the order of their names, and the body. */
static PyObject *content_of(const Send *send) {
    Py_ssize_t size = value_of(send->signers[USER]).size + value_of(send->signers[TOKEN]).size + send->header.body.size;
    for (char letter = 'a'; letter <= 'n'; letter++)
        if (letter != 'i') size += said(send, letter).size;
    PyObject *properties = without_escapes(send->fields['i' - 'a']), *made;
    Bytes plain;
    if (properties == NULL || !bytes_of(properties, &plain) ||
        (made = PyBytes_FromStringAndSize(NULL, size + plain.size)) == NULL) {
        Py_DecRef(properties);
        return NULL;
    }
    byte *at = (byte *)PyBytes_AsString(made);
    for (int signer = USER; signer <= TOKEN; signer++) {
        Bytes value = value_of(send->signers[signer]);
        if (value.size) at = put(at, value.at, (size_t)value.size);
    }
    for (char letter = 'a'; letter <= 'n'; letter++) {
        Bytes value = letter == 'i' ? plain : said(send, letter);
        if (value.size) at = put(at, value.at, (size_t)value.size);
    }
    put(at, send->header.body.at, (size_t)send->header.body.size);
    Py_DecRef(properties);
    return made;
}

PyDoc_STRVAR(
    read_signed_send_doc, "Return the fields of the SignedSend that a frame is, as SignedSendShortcut.read and "
                          "read_signed_json_send do; None if anything about it is not as usual.");

static PyObject *read_signed_send(PyObject *module, PyObject *frame) {
    Bytes whole;
    Send send;
    if (!bytes_of(frame, &whole)) return NULL;
    if (!send_of(whole, &send, 1) || send.is_batch || send.signers[USER] == NULL || send.signers[SIGNATURE] == NULL)
        Py_RETURN_NONE;
    Bytes user = value_of(send.signers[USER]), signature = value_of(send.signers[SIGNATURE]);
    if (!is_ascii(user)) Py_RETURN_NONE;
    return Py_BuildValue(
        "(Ns#y#N)", made_of(&send), (const char *)user.at, user.size, (const char *)signature.at, signature.size,
        content_of(&send));
}

PyDoc_STRVAR(
    read_end_doc, "Return what a decision about a half says, as EndShortcut.read does of one with a binary header; None "
                  "if anything about it is not as usual.");

static PyObject *read_end(PyObject *module, PyObject *frame) {
    static const char *const names[6] = {
        "commitOrRollback", "tranStateTableOffset", "commitLogOffset", "producerGroup", "transactionId",
        "fromTransactionCheck",
    };
    Bytes whole;
    Header header;
    const Field *fields[6] = {NULL};
    if (!bytes_of(frame, &whole)) return NULL;
    if (!header_of(whole, &header) || header.code != 37 || header.flag & ~2 || header.body.size) Py_RETURN_NONE;
    for (int number = 0; number < header.count; number++)
        for (int place = 0; place < 6; place++) {
            const Field *field = &header.fields[number];
            if (!is_named(field->name.at, field->name.size, names[place])) continue;
            if (fields[place] != NULL || field->escapes) Py_RETURN_NONE;
            fields[place] = field;
        }
    for (int place = 0; place < 6; place++)
        if (fields[place] == NULL) Py_RETURN_NONE;
    Bytes said = fields[0]->value, group = fields[3]->value, id = fields[4]->value, check = fields[5]->value;
    int64_t offset = digits_of(fields[1]->value, 18), position = digits_of(fields[2]->value, 18);
    PyObject *commit = is_named(said.at, said.size, "8")    ? Py_True
                       : is_named(said.at, said.size, "12") ? Py_False
                       : is_named(said.at, said.size, "0")  ? Py_None
                                                            : NULL;
    if (commit == NULL || offset < 0 || position < 0 || !is_truth(check)) Py_RETURN_NONE;
    PyObject *group_name = PyUnicode_DecodeUTF8((const char *)group.at, group.size, NULL);
    PyObject *id_text = group_name == NULL ? NULL : PyUnicode_DecodeUTF8((const char *)id.at, id.size, NULL);
    if (id_text == NULL) {
        Py_DecRef(group_name);
        return nothing_unless_failed();
    }
    return Py_BuildValue(
        "(iiOLLNNO)", (int)header.opaque, (int)header.flag, commit, (long long)offset, (long long)position, group_name,
        id_text, is_named(check.at, check.size, "true") ? Py_True : Py_False);
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

/* What both answers say of a send. */
typedef struct {
    byte message_id[80], queue_id[20], queue_offset[20];
    size_t id_size, queue_size, offset_size;
    Bytes unique_key;
    int32_t opaque;
} Answer;

/* Read host in hex, opaque, position, queue id, queue offset and unique key; 1: done, 0: not as usual, -1: an error. */
static int answer_of(PyObject *const *args, Answer *answer) {
    Bytes host;
    int64_t position, queue_id, queue_offset;
    if (!bytes_of(args[0], &host) || !int32_of(args[1], &answer->opaque) || !int64_of(args[2], &position) ||
        !int64_of(args[3], &queue_id) || !int64_of(args[4], &queue_offset))
        return -1;
    const char *key = "";
    answer->unique_key.size = 0;
    if (args[5] != Py_None && (key = PyUnicode_AsUTF8AndSize(args[5], &answer->unique_key.size)) == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    answer->unique_key.at = (const byte *)key;
    if (position < 0 || queue_id < 0 || queue_offset < 0 || host.size > 64 || answer->unique_key.size > 255) return 0;
    byte *at = put(answer->message_id, host.at, (size_t)host.size);
    for (int digit = 0; digit < 16; digit++) *at++ = (byte)"0123456789ABCDEF"[(uint64_t)position >> (60 - 4 * digit) & 15];
    answer->id_size = (size_t)host.size + 16;
    answer->queue_size = write_number(answer->queue_id, queue_id);
    answer->offset_size = write_number(answer->queue_offset, queue_offset);
    return 1;
}

PyDoc_STRVAR(
    send_reply_doc,
    "Return the answer to a send, with a binary header: language, version, last fields, host in hex, opaque, position, "
    "queue id, queue offset, id, further fields.");

static PyObject *send_reply(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int32_t language, version;
    Bytes last, more;
    Answer said;
    if (!has_args("send_reply", count, 10) || !int32_of(args[0], &language) || !int32_of(args[1], &version) ||
        !bytes_of(args[2], &last) || !bytes_of(args[9], &more))
        return NULL;
    int read = answer_of(args + 3, &said);
    if (read < 0) return NULL;
    if (!read || last.size > 4096 || more.size > 4096) Py_RETURN_NONE;
    size_t ext = 4 * 6 + strlen("msgId" "queueId" "queueOffset" "transactionId") + said.id_size + said.queue_size +
                 said.offset_size + (size_t)said.unique_key.size + (size_t)last.size + (size_t)more.size;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(29 + ext));
    if (made == NULL) return NULL;
    byte *at = (byte *)PyBytes_AsString(made);
    at = put32(at, (uint32_t)(25 + ext));
    at = put32(at, (uint32_t)(21 + ext) | 1u << 24);
    at = put16(at, 0);
    *at++ = (byte)language;
    at = put16(at, (uint32_t)version);
    at = put32(at, (uint32_t)said.opaque);
    at = put32(at, 1);
    at = put32(at, 0);
    at = put32(at, (uint32_t)ext);
    at = put_field(at, "msgId", said.message_id, said.id_size);
    at = put_field(at, "queueId", said.queue_id, said.queue_size);
    at = put_field(at, "queueOffset", said.queue_offset, said.offset_size);
    at = put_field(at, "transactionId", said.unique_key.at, (size_t)said.unique_key.size);
    put(put(at, last.at, (size_t)last.size), more.at, (size_t)more.size);
    return made;
}

static int needs_no_escape(Bytes text) {
    for (Py_ssize_t at = 0; at < text.size; at++) {
        byte letter = text.at[at], lower = letter | 0x20;
        if (!is_digit(letter) && !(lower >= 'a' && lower <= 'z') && letter != '_' && letter != '.' && letter != ':' &&
            letter != '-')
            return 0;
    }
    return 1;
}

PyDoc_STRVAR(
    json_send_reply_doc,
    "Return the answer to a send, with a JSON header: last fields, what stands before the opaque, what stands behind it, "
    "host in hex, opaque, position, queue id, queue offset, id, further fields.");

static PyObject *json_send_reply(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Bytes last, before, behind, more;
    Answer said;
    if (!has_args("json_send_reply", count, 10) || !bytes_of(args[0], &last) || !bytes_of(args[1], &before) ||
        !bytes_of(args[2], &behind) || !bytes_of(args[9], &more))
        return NULL;
    int read = answer_of(args + 3, &said);
    if (read < 0) return NULL;
    if (!read || last.size > 4096 || before.size > 4096 || behind.size > 4096 || more.size > 4096 ||
        !needs_no_escape(said.unique_key))
        Py_RETURN_NONE;
    byte opaque[21];
    size_t opaque_size = said.opaque < 0;
    opaque[0] = '-';
    opaque_size += write_number(opaque + opaque_size, said.opaque < 0 ? -(int64_t)said.opaque : said.opaque);
    const struct {
        const void *at;
        size_t size;
    } parts[] = {
#define TEXT(text) {text, sizeof text - 1}
        TEXT("{\"code\":0,\"extFields\":{\"msgId\":\""), {said.message_id, said.id_size},
        TEXT("\",\"queueId\":\""), {said.queue_id, said.queue_size},
        TEXT("\",\"queueOffset\":\""), {said.queue_offset, said.offset_size},
        TEXT("\",\"transactionId\":\""), {said.unique_key.at, (size_t)said.unique_key.size},
        TEXT("\","), {last.at, (size_t)last.size}, {more.at, (size_t)more.size},
        {before.at, (size_t)before.size}, {opaque, opaque_size}, {behind.at, (size_t)behind.size},
#undef TEXT
    };
    size_t size = 0;
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) size += parts[part].size;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 + size));
    if (made == NULL) return NULL;
    byte *at = put32(put32((byte *)PyBytes_AsString(made), (uint32_t)(4 + size)), (uint32_t)size);
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) at = put(at, parts[part].at, parts[part].size);
    return made;
}

PyMethodDef frame_functions[] = {FAST(json_send_reply), ONE(read_end), ONE(read_send), ONE(read_signed_send), FAST(send_reply), NO_MORE};
