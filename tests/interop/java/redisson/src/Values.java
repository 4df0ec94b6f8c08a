import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Java values as JSON that keeps their types. Null, text, Boolean, Integer (a number in its range) and Double (a number
 * with a point or an exponent) stand for themselves, an array is an ArrayList; every other type is an object with one
 * key that begins with a dollar sign: a Map is {"$map": {...}}, a Long {"$long": 5}, a byte[] {"$bytes": hex}.
 */
final class Values {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.withExactBigDecimals(true);

    /** A class of the application's own; Jackson writes no type for a final one. */
    public static class Order {
        public String id;
        public long amount;
        public String note;
    }

    static Object value(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        if (node.isArray()) {
            List<Object> values = new ArrayList<>();
            node.forEach(each -> values.add(value(each)));
            return values;
        }
        if (node.isObject()) {
            Map.Entry<String, JsonNode> only = node.fields().next();
            return tagged(only.getKey(), only.getValue());
        }
        if (node.isTextual()) {
            return node.textValue();
        }
        return node.isBoolean() ? (Object) node.booleanValue() : node.numberValue();
    }

    private static Object tagged(String kind, JsonNode node) {
        switch (kind) {
            case "$map":
                Map<String, Object> map = new LinkedHashMap<>();
                node.fields().forEachRemaining(entry -> map.put(entry.getKey(), value(entry.getValue())));
                return map;
            case "$long":
                return node.longValue();
            case "$float":
                return Float.parseFloat(node.asText());
            case "$big":
                return new BigInteger(node.textValue());
            case "$decimal":
                return new BigDecimal(node.textValue());
            case "$bytes":
                return bytes(node.textValue());
            case "$uuid":
                return UUID.fromString(node.textValue());
            case "$date":
                return new Date(node.longValue());
            case "$order":
                return MAPPER.convertValue(node, Order.class);
            default:
                throw new IllegalArgumentException("no kind of value is called " + kind);
        }
    }

    static JsonNode node(Object value) {
        if (value instanceof Map) {
            ObjectNode map = NODES.objectNode();
            ((Map<?, ?>) value).forEach((key, each) -> map.set(String.valueOf(key), node(each)));
            return tag("$map", map);
        }
        if (value instanceof Iterable) {
            ArrayNode list = NODES.arrayNode();
            ((Iterable<?>) value).forEach(each -> list.add(node(each)));
            return list;
        }
        if (value instanceof Long) {
            return tag("$long", NODES.numberNode((Long) value));
        }
        if (value instanceof Float) {
            return tag("$float", NODES.textNode(value.toString()));
        }
        if (value instanceof BigInteger) {
            return tag("$big", NODES.textNode(value.toString()));
        }
        if (value instanceof BigDecimal) {
            return tag("$decimal", NODES.textNode(((BigDecimal) value).toPlainString()));
        }
        if (value instanceof byte[]) {
            return tag("$bytes", NODES.textNode(hex((byte[]) value)));
        }
        if (value instanceof UUID) {
            return tag("$uuid", NODES.textNode(value.toString()));
        }
        if (value instanceof Date) {
            return tag("$date", NODES.numberNode(((Date) value).getTime()));
        }
        if (value instanceof Order) {
            return tag("$order", MAPPER.valueToTree(value));
        }
        return MAPPER.valueToTree(value);
    }

    private static JsonNode tag(String kind, JsonNode value) {
        return NODES.objectNode().set(kind, value);
    }

    static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(2 * bytes.length);
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
