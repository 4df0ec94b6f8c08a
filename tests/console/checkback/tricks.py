"""Ways to write an address that leads somewhere else than it seems to: what servers have been tricked with.

{port} is that of a server on this machine that must never be reached.
"""

from __future__ import annotations

#: Each is refused before anything is looked up: it is no address, or its origin is not listed.
UNREADABLE = (
    # this machine by its names and numbers
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "https://localhost/", "http://127.1:{port}/",
    "http://127.0.1:{port}/", "http://0:{port}/", "http://0.0.0.0:{port}/", "http://2130706433:{port}/",
    "http://0x7f000001:{port}/", "http://0x7f.0.0.1:{port}/", "http://017700000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.0.0.1.:{port}/", "http://127.000.000.001:{port}/", "http://127.0.0.01:{port}/",
    "http://0x7F.1:{port}/",
    "http://[::1]:{port}/", "http://[0:0:0:0:0:0:0:1]:{port}/", "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/", "http://[::127.0.0.1]:{port}/", "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/", "http://[fe80::1%25lo]:{port}/", "http://[fe80::1%lo]:{port}/",
    "http://[::1%1]:{port}/",
    # networks around it
    "http://10.0.0.1/", "http://192.168.0.1/", "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/", "http://metadata.google.internal/", "http://2852039166/",
    "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/", "http://100.100.100.200/",
    # another host than the one that is listed
    "https://hooks.example@127.0.0.1:{port}/", "https://hooks.example:443@127.0.0.1:{port}/",
    "https://hooks.example%40evil.example/",
    "https://user:pass@hooks.example/", "https://hooks.example.evil.example/", "https://evil.example/hooks.example",
    "https://evil.example#@hooks.example/", "https://evil.example?@hooks.example/",
    "https://evil.example\\@hooks.example/",
    "https:\\\\evil.example/", "https:/\\evil.example/", "https:///evil.example/", "https:evil.example/",
    "//hooks.example/",
    "https://hooks.example\t.evil.example/", "https://hooks.example .evil.example/",
    "https://hooks.example\r\n.evil.example/",
    "https://hooks.example%00.evil.example/", "https://hooks.example%2eevil.example/",
    "https://hooks.example&@evil.example/",
    "https://sub.hooks.example/", "https://hooks.example./", "https://.hooks.example/", "https://hooks..example/",
    "https://-hooks.example/", "https://HOOKS.example/", "https://\uff48ooks.example/",
    "https://hooks\u3002example/",
    "https://\u24d7ooks.example/", "https://hoo\u0138s.example/", "https://xn--hooks.example/",
    "https://hooks.example\u202e/",
    # another scheme, port or part of an address
    "http://hooks.example/", "HTTPS://hooks.example/", "ftp://hooks.example/", "file:///etc/passwd",
    "gopher://hooks.example/",
    "dict://hooks.example:11211/", "javascript:alert(1)", "data:text/plain,x", "unix:///var/run/docker.sock",
    "ws://hooks.example/",
    "https://hooks.example:{port}/", "https://hooks.example:80/", "https://hooks.example:0443/",
    "https://hooks.example:/",
    "https://hooks.example:443443/", "https://hooks.example:+443/", "https://hooks.example:\uff14\uff14\uff13/",
    "https://hooks.example/#x",
    "https://hooks.example/\r\nHost: evil.example", "https://hooks.example/ HTTP/1.1", "https://hooks.example/%zz",
    "https://hooks.example/<x>", "https://hooks.example/\x00", "https://hooks.example/" + "a" * 500,
    " https://hooks.example/",
    "https://hooks.example/\n", "", "hooks.example", "https://", "https://[hooks.example]/", "https://[::1/",
    "https://::1/",
)  # fmt: skip

#: What a listed name may be made to lead to; none of these may be connected to unless it is listed as a network.
PLACES = (
    "127.0.0.1", "127.0.0.53", "127.255.255.254", "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1",
    "fd00:ec2::254", "fe80::1",
    "fe80::1%lo", "fec0::1", "ff02::1", "4000::1", "::2:3",
)  # fmt: skip
