/* Headers of requests, in both of RocketMQ's forms (rocketmq/frame.py draws them).

   Of JSON only the plainest is read, as Java's client writes it: nothing between the tokens, ASCII, every name once. */

#include "fast.h"

static int binary_header(Bytes frame, Header *header) {
    if (frame.size < 25) return 0;
    Py_ssize_t length = (Py_ssize_t)(get32(frame.at) & 0xFFFFFF), body_at = 4 + length;
    if (body_at > frame.size || body_at < 25 || get32(frame.at + 17) || get32(frame.at + 21) != (uint32_t)(length - 21))
        return 0;
    header->code = (int32_t)get16(frame.at + 4);
    header->opaque = (int32_t)get32(frame.at + 9);
    header->flag = (int32_t)get32(frame.at + 13);
    header->body = (Bytes){frame.at + body_at, frame.size - body_at};
    for (const byte *at = frame.at + 25, *end = header->body.at; at < end;) {
        if (header->count == MOST_FIELDS || end - at < 2) return 0;
        Field *field = &header->fields[header->count++];
        field->name = (Bytes){at + 2, (Py_ssize_t)get16(at)};
        if (end - field->name.at < field->name.size + 4) return 0;
        at = field->name.at + field->name.size;
        uint32_t size = get32(at);
        at += 4;
        if (size > (uint32_t)(end - at)) return 0;
        field->value = (Bytes){at, (Py_ssize_t)size};
        field->escapes = 0;
        at += size;
    }
    return 1;
}

/* What is left to read; NULL once something is not as usual. */
typedef struct {
    const byte *at, *end;
} Rest;

static void expect(Rest *rest, byte letter) {
    if (rest->at != NULL && rest->at < rest->end && *rest->at == letter) rest->at++;
    else rest->at = NULL;
}

static int comes(Rest *rest, byte letter) {
    if (rest->at == NULL || rest->at >= rest->end || *rest->at != letter) return 0;
    rest->at++;
    return 1;
}

/* A string as it stands there, and how many escapes are in it: of those only that of a character of ASCII by its number,
   which takes six letters. */
static Bytes string(Rest *rest, int *escapes) {
    Bytes found = {NULL, 0};
    *escapes = 0;
    expect(rest, '"');
    if (rest->at == NULL) return found;
    const byte *at = rest->at;
    for (; at < rest->end && *at != '"'; at++) {
        if (*at < ' ' || *at > '~') goto refuse;
        if (*at != '\\') continue;
        if (rest->end - at < 6 || memcmp(at, "\\u00", 4) || at[4] < '0' || at[4] > '7' || digit_of(at[5]) < 0) goto refuse;
        ++*escapes;
        at += 5;
    }
    if (at == rest->end) goto refuse;
    found = (Bytes){rest->at, at - rest->at};
    rest->at = at + 1;
    return found;
refuse:
    rest->at = NULL;
    return found;
}

static int32_t number(Rest *rest) {
    int64_t value = 0;
    int is_negative = comes(rest, '-'), digits = 0;
    for (; rest->at != NULL && rest->at < rest->end && is_digit(*rest->at); rest->at++, digits++) {
        if (digits == 10 || (digits && !value)) break;
        value = value * 10 + (*rest->at - '0');
    }
    if (is_negative) value = -value;
    if (rest->at == NULL || !digits || rest->at == rest->end || is_digit(*rest->at) || (is_negative && !value) ||
        value < INT32_MIN || value > INT32_MAX) {
        rest->at = NULL;
        return 0;
    }
    return (int32_t)value;
}

static void fields(Rest *rest, Header *header) {
    expect(rest, '{');
    if (comes(rest, '}')) return;
    do {
        int escapes;
        if (header->count == MOST_FIELDS) rest->at = NULL;
        Bytes name = string(rest, &escapes);
        if (escapes) rest->at = NULL;
        expect(rest, ':');
        Bytes value = string(rest, &escapes);
        if (rest->at == NULL) return;
        header->fields[header->count++] = (Field){name, value, escapes};
    } while (comes(rest, ','));
    expect(rest, '}');
}

static int json_header(Bytes frame, Header *header) {
    static const char *const names[] = {
        "code", "extFields", "flag", "language", "opaque", "serializeTypeCurrentRPC", "version"};
    Py_ssize_t length = frame.size < 4 ? 0 : (Py_ssize_t)(get32(frame.at) & 0xFFFFFF);
    if (frame.size < 4 || length > frame.size - 4) return 0;
    header->body = (Bytes){frame.at + 4 + length, frame.size - 4 - length};
    Rest rest = {frame.at + 4, header->body.at};
    int seen = 0;
    expect(&rest, '{');
    do {
        int escapes, name = 0;
        Bytes said = string(&rest, &escapes);
        while (name < 7 && (rest.at == NULL || !is_named(said.at, said.size, names[name]))) name++;
        if (name == 7 || seen & 1 << name) return 0;
        seen |= 1 << name;
        expect(&rest, ':');
        if (name == 0) header->code = number(&rest);
        else if (name == 1) fields(&rest, header);
        else if (name == 2) header->flag = number(&rest);
        else if (name == 4) header->opaque = number(&rest);
        else if (name == 6) number(&rest);
        else {
            said = string(&rest, &escapes);
            if (rest.at != NULL && !is_named(said.at, said.size, name == 3 ? "JAVA" : "JSON")) return 0;
        }
    } while (comes(&rest, ','));
    expect(&rest, '}');
    return rest.at == rest.end && (seen & 3) == 3;
}

int header_of(Bytes frame, Header *header) {
    memset(header, 0, offsetof(Header, fields));
    if (!frame.size) return 0;
    header->is_json = frame.at[0] == 0;
    return header->is_json ? json_header(frame, header) : frame.at[0] == 1 && binary_header(frame, header);
}
