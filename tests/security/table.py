"""What everybody is answered at every address: the table that `tests/security` holds the console to.

Six roles: a stranger; somebody who signed in and has no role; viewer, operator, administrator (of the staff) as a new
installation has them; a superuser. Viewer, operator and administrator are there once more, limited to the topics of one
team; for them the columns `of others` say what they are answered about the other team's ("-": the address names
nobody's). About their own they are answered as their role is, but for what LIMITED_DIFFER says.

    yes      a page, a file             no       403
    led      the way to one             gone     404: what is not seen is not there
    refused  the form, with its faults  never    405
    sign-in  the way to signing in

An address that is not in here fails the tests, as does one in here that is not there. One without a row for POST takes
no form: strangers and those without a role are answered as at GET, all others `never`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.security.gate import ADMINISTRATOR, OPERATOR, VIEWER

ROLES = ("stranger", "none", VIEWER, OPERATOR, ADMINISTRATOR, "superuser")
#: of these there is one more each, who sees the topics of one team only
LIMITED = (VIEWER, OPERATOR, ADMINISTRATOR)

#                       stranger none   viewer operator admin  superuser | of others: viewer operator admin
PAGES = """
set_language       GET  led      led      led      led      led      led     -
set_language       POST led      led      led      led      led      led     -
overview           GET  sign-in  no       yes      yes      yes      yes     -
finding            GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
finding            POST sign-in  no       no       refused  refused  refused gone     gone     gone
due                GET  sign-in  no       yes      yes      yes      yes     -
schedule           GET  sign-in  no       yes      yes      yes      yes     -
lane               GET  sign-in  no       yes      yes      yes      yes     -
timers             GET  sign-in  no       yes      yes      yes      yes     -
timer_list         GET  sign-in  no       yes      yes      yes      yes     -
timer              GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
transactions       GET  sign-in  no       yes      yes      yes      yes     -
transaction_list   GET  sign-in  no       yes      yes      yes      yes     -
transaction        GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
transaction_unmask GET  sign-in  no       led      led      led      led     led      led      led
transaction_unmask POST sign-in  no       no       no       yes      yes     no       no       gone
delayed_queues     GET  sign-in  no       yes      yes      yes      yes     -
delayed_queue      GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
operations         GET  sign-in  no       yes      yes      yes      yes     -
operation_draft    GET  sign-in  no       led      led      led      led     -
operation_draft    POST sign-in  no       no       led      led      led     no       no       no
operation          GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
operation_preview  GET  sign-in  no       led      led      led      led     led      led      led
operation_preview  POST sign-in  no       no       led      led      led     no       no       no
operation_confirm  GET  sign-in  no       led      led      led      led     led      led      led
operation_confirm  POST sign-in  no       no       refused  refused  refused no       no       no
operation_abort    GET  sign-in  no       led      led      led      led     led      led      led
operation_abort    POST sign-in  no       no       led      led      led     no       no       no
operation_continue GET  sign-in  no       led      led      led      led     led      led      led
operation_continue POST sign-in  no       no       refused  refused  refused no       no       no
operation_approve  GET  sign-in  no       led      led      led      led     led      led      led
operation_approve  POST sign-in  no       no       refused  refused  refused no       no       no
operation_decline  GET  sign-in  no       led      led      led      led     led      led      led
operation_decline  POST sign-in  no       no       refused  refused  refused no       no       no
operation_undo     GET  sign-in  no       led      led      led      led     led      led      led
operation_undo     POST sign-in  no       no       led      led      led     no       no       no
topics             GET  sign-in  no       yes      yes      yes      yes     -
topic              GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
tail               GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
queue              GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
send               GET  sign-in  no       no       yes      yes      yes     no       gone     gone
send               POST sign-in  no       no       never    never    never   -
topic_descriptor   GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
topic_descriptor_draft GET sign-in no     led      led      led      led     led      led      led
topic_descriptor_draft POST sign-in no    no       refused  refused  refused gone     gone     gone
messages           GET  sign-in  no       yes      yes      yes      yes     -
message            GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
message_unmask     GET  sign-in  no       led      led      led      led     led      led      led
message_unmask     POST sign-in  no       no       no       yes      yes     no       no       gone
message_body       GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
archive            GET  sign-in  no       yes      yes      yes      yes     -
dashboards         GET  sign-in  no       led      led      led      led     -
dashboards_run     GET  sign-in  no       no       led      led      led     -
dashboards_run     POST sign-in  no       no       gone     gone     gone    -
dashboards_cancel  GET  sign-in  no       no       led      led      led     -
dashboards_cancel  POST sign-in  no       no       gone     gone     gone    -
dashboard          GET  sign-in  no       yes      yes      yes      yes     -
dashboard_series   GET  sign-in  no       yes      yes      yes      yes     -
dashboard_data     GET  sign-in  no       yes      yes      yes      yes     -
dead_letters       GET  sign-in  no       yes      yes      yes      yes     -
dead_letters_of    GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
groups             GET  sign-in  no       yes      yes      yes      yes     -
group              GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
compare            GET  sign-in  no       yes      yes      yes      yes     -
clients            GET  sign-in  no       yes      yes      yes      yes     -
client             GET  sign-in  no       yes      yes      yes      yes     gone     gone     gone
broker             GET  sign-in  no       yes      yes      yes      yes     -
alerts             GET  sign-in  no       yes      yes      yes      yes     -
alert_silence      GET  sign-in  no       no       led      led      led     -
alert_silence      POST sign-in  no       no       led      led      led     no       refused  refused
alert_rule_new     GET  sign-in  no       no       no       yes      yes     -
alert_rule_new     POST sign-in  no       no       no       refused  refused -
alert_rule         GET  sign-in  no       no       no       yes      yes     no       no       no
alert_rule         POST sign-in  no       no       no       led      led     no       no       no
alert_rule_test    GET  sign-in  no       led      led      led      led     led      led      led
alert_rule_test    POST sign-in  no       no       no       yes      yes     no       no       no
audit              GET  sign-in  no       yes      yes      yes      yes     -
audit_data         GET  sign-in  no       yes      yes      yes      yes     -
access             GET  sign-in  no       no       no       yes      yes     -
access             POST sign-in  no       no       no       never    never   -
access_user        GET  sign-in  no       no       no       yes      yes     no       no       no
access_user        POST sign-in  no       no       no       never    never   -
people             GET  sign-in  no       no       no       yes      yes     -
people             POST sign-in  no       no       no       never    never   -
person             GET  sign-in  no       no       no       yes      yes     no       no       no
person             POST sign-in  no       no       no       never    never   -
see_as             GET  sign-in  no       no       no       led      led     -
see_as             POST sign-in  no       no       no       gone     gone    -
see_as_stop        GET  led      led      led      led      led      led     -
see_as_stop        POST led      led      led      led      led      led     -
tokens             GET  sign-in  no       no       no       yes      yes     -
tokens             POST sign-in  no       no       no       never    never   -
design             GET  sign-in  no       no       no       yes      yes     -
design             POST sign-in  no       no       no       never    never   -
reference          GET  sign-in  no       yes      yes      yes      yes     -
reference_operation GET sign-in  no       yes      yes      yes      yes     -
reference_operation POST sign-in no       yes      yes      yes      yes     -
saved_views        GET  sign-in  no       yes      yes      yes      yes     -
saved_view_keep    GET  sign-in  no       led      led      led      led     -
saved_view_keep    POST sign-in  no       led      led      led      led     -
saved_view         GET  sign-in  no       led      led      led      led     led      led      led
saved_view         POST sign-in  no       gone     gone     led      led     gone     gone     gone
saved_view_delete  GET  sign-in  no       led      led      led      led     led      led      led
saved_view_delete  POST sign-in  no       gone     gone     led      led     gone     gone     gone
find               GET  sign-in  no       yes      yes      yes      yes     -
find_key           GET  sign-in  no       led      led      led      led     led      led      led
find_act           GET  sign-in  no       led      led      led      led     -
find_act           POST sign-in  no       no       led      led      led     no       no       no
login              GET  yes      led      led      led      led      led     -
login              POST yes      led      led      led      led      led     -
admin_sign_in      GET  led      led      led      led      led      led     -
admin_sign_in      POST led      led      led      led      led      led     -
second_step        GET  sign-in  sign-in  sign-in  sign-in  sign-in  sign-in -
second_step        POST sign-in  sign-in  sign-in  sign-in  sign-in  sign-in -
own_settings       GET  sign-in  yes      yes      yes      yes      yes     -
own_settings       POST never    never    never    never    never    never   -
own_password       GET  sign-in  yes      yes      yes      yes      yes     -
own_password       POST sign-in  refused  refused  refused  refused  refused -
own_second_factor  GET  sign-in  yes      yes      yes      yes      yes     -
own_second_factor  POST sign-in  refused  refused  refused  refused  refused -
sign_on            GET  gone     gone     gone     gone     gone     gone    -
sign_on            POST never    never    never    never    never    never   -
sign_on_back       GET  gone     gone     gone     gone     gone     gone    -
sign_on_back       POST never    never    never    never    never    never   -
prove              GET  sign-in  yes      yes      yes      yes      yes     -
prove              POST sign-in  refused  refused  refused  refused  refused -
send_again         GET  sign-in  led      led      led      led      led     -
send_again         POST never    never    never    never    never    never   -
logout             GET  never    never    never    never    never    never   -
logout             POST led      led      led      led      led      led     -
set_theme          GET  led      led      led      led      led      led     -
set_theme          POST led      led      led      led      led      led     -
set_zone           GET  led      led      led      led      led      led     -
set_zone           POST led      led      led      led      led      led     -
set_density        GET  led      led      led      led      led      led     -
set_density        POST led      led      led      led      led      led     -
favicon            GET  led      led      led      led      led      led     -
favicon            POST never    never    never    never    never    never   -
healthz            GET  yes      yes      yes      yes      yes      yes     -
healthz            POST never    never    never    never    never    never   -
readyz             GET  yes      yes      yes      yes      yes      yes     -
readyz             POST never    never    never    never    never    never   -
metrics            GET  no       no       no       no       no       no      -
metrics            POST never    never    never    never    never    never   -
"""

#: rules of alerts watch everything, a key without a topic may be anybody's, views that are shared may name anything;
#: accounts, tokens and users of access control are about every topic
LIMITED_DIFFER: Mapping[tuple[str, str, str], str] = {
    ("access", "GET", ADMINISTRATOR): "no",
    ("access", "POST", ADMINISTRATOR): "no",
    ("access_user", "GET", ADMINISTRATOR): "no",
    ("access_user", "POST", ADMINISTRATOR): "no",
    ("people", "GET", ADMINISTRATOR): "no",
    ("people", "POST", ADMINISTRATOR): "no",
    ("person", "GET", ADMINISTRATOR): "no",
    ("person", "POST", ADMINISTRATOR): "no",
    ("see_as", "GET", ADMINISTRATOR): "no",
    ("see_as", "POST", ADMINISTRATOR): "no",
    ("tokens", "GET", ADMINISTRATOR): "no",
    ("tokens", "POST", ADMINISTRATOR): "no",
    ("alert_rule_new", "GET", ADMINISTRATOR): "no",
    ("alert_rule_new", "POST", ADMINISTRATOR): "no",
    ("alert_rule", "GET", ADMINISTRATOR): "no",
    ("alert_rule", "POST", ADMINISTRATOR): "no",
    ("alert_rule_test", "POST", ADMINISTRATOR): "no",
    ("find_act", "POST", OPERATOR): "no",
    ("find_act", "POST", ADMINISTRATOR): "no",
    ("saved_view", "POST", ADMINISTRATOR): "gone",
    ("saved_view_delete", "POST", ADMINISTRATOR): "gone",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The answers at one address and method by role, and to who is limited about what is the other team's."""

    roles: Mapping[str, str]
    others: Mapping[str, str] | None


def rows() -> dict[tuple[str, str], Row]:
    """The table, by name and method; rows for POST that are not written are filled in."""
    found: dict[tuple[str, str], Row] = {}
    for line in PAGES.strip().splitlines():
        name, method, *words = line.split()
        assert (name, method) not in found, line
        others = None if words[6:] == ["-"] else dict(zip(LIMITED, words[6:], strict=True))
        found[name, method] = Row(dict(zip(ROLES, words[:6], strict=True)), others)
    for name, method in list(found):
        if method == "GET" and (name, "POST") not in found:
            closed = {role: found[name, "GET"].roles[role] for role in ("stranger", "none")}
            never = Row(dict.fromkeys(ROLES, "never") | closed, None)
            found[name, "POST"] = never
    return found
