import java.util.Map;

/** One JSON object on one line of standard output. */
final class Json {
    private final StringBuilder text = new StringBuilder("{");

    Json put(String name, String value) {
        key(name);
        if (value == null) {
            text.append("null");
        } else {
            quote(value);
        }
        return this;
    }

    Json put(String name, long value) {
        key(name).append(value);
        return this;
    }

    Json put(String name, Map<String, String> values) {
        Json nested = new Json();
        values.forEach(nested::put);
        key(name).append(nested.text).append('}');
        return this;
    }

    Json put(String name, Iterable<Long> values) {
        key(name).append('[');
        String comma = "";
        for (long value : values) {
            text.append(comma).append(value);
            comma = ",";
        }
        text.append(']');
        return this;
    }

    void print() {
        synchronized (System.out) {
            System.out.println(text.append('}'));
            System.out.flush();
        }
    }

    private StringBuilder key(String name) {
        if (text.length() > 1) {
            text.append(',');
        }
        quote(name);
        return text.append(':');
    }

    private void quote(String value) {
        text.append('"');
        for (char c : value.toCharArray()) {
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
