"""Users, signatures and policies: mqadmin and the official clients find the same here as at Apache RocketMQ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.client import Admin, BrokerRefused, Producer
from tests.interop.guarded import GUARDED, ROOT, JavaUser
from tests.interop.mqadmin import MqAdmin
from tests.interop.process import ChildFailed
from tests.interop.programs import Program
from tests.interop.servers import Server, StoreShape, served

NO_PERMISSION = 16
#: ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION
NO_ROUTE = 10005
#: What an administrator does with users and policies, in order; both brokers must say the same.
SCRIPT = """
    createUser -b {broker} -u alice -p alice-secret
    createUser -b {broker} -u alice -p again
    createUser -c DefaultCluster -u boss -p boss-secret -t Super
    getUser -b {broker} -u alice
    getUser -b {broker} -u nobody
    listUser -b {broker} -f ali
    updateUser -b {broker} -u alice -s disable
    getUser -b {broker} -u alice
    updateUser -b {broker} -u alice -s enable
    updateUser -b {broker} -u alice -p alice-2
    updateUser -b {broker} -u alice -t Super
    listUser -b {broker} -f alice
    updateUser -b {broker} -u nobody -p x
    createAcl -b {broker} -s User:alice -r Topic:order*,Group:billing -a Pub,Sub -i 127.0.0.1,10.0.0.0/8 -d Allow
    createAcl -b {broker} -s User:nobody -r Topic:order* -a Pub -d Allow
    createAcl -b {broker} -s User:alice -r Topic:order* -a Pub -d Perhaps
    createAcl -b {broker} -s User:alice -r Topic:order* -a Any -d Allow
    createAcl -b {broker} -s User:alice -r Topic:order* -a Pub -i somewhere -d Allow
    getAcl -b {broker} -s User:alice
    updateAcl -b {broker} -s User:alice -r Topic:order* -a Pub,Sub,Get -d Allow
    createAcl -b {broker} -s User:alice -r Topic:order-secret -a All -d Deny
    getAcl -c DefaultCluster -s User:alice
    listAcl -b {broker} -s alice
    listAcl -b {broker} -s alice -r order-secret
    deleteAcl -b {broker} -s User:boss
    deleteAcl -b {broker} -s User:alice -r Group:billing
    getAcl -b {broker} -s User:alice
    deleteUser -b {broker} -u nobody
"""
#: Refusals are the same, but each broker has words of its own for them.
REMARK = re.compile(r"DESC: .*\n?.*FAQ", re.DOTALL)


@dataclass
class House:
    """A broker with access control and who deals with it."""

    server: Server
    work: Path
    programs: list[Program]

    def admin(self, name: str, secret: str) -> MqAdmin:
        """mqadmin in the name of a user."""
        home = self.work / f"home-{name}"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        (home / "conf" / "tools.yml").write_text(f"accessKey: {name}\nsecretKey: {secret}\n")
        properties = [f"rocketmq.home.dir={home}"]
        made = MqAdmin(self.server.namesrv, self.server.address, work=self.work, properties=properties)
        self.programs.append(made)
        return made

    def user(self, name: str, secret: str, version: str = "5.5.0", properties: tuple[str, ...] = ()) -> JavaUser:
        """The official client in the name of a user."""
        made = JavaUser(self.server, name, secret, version=version, work=self.work, properties=properties)
        self.programs.append(made)
        return made


def running(kind: str, factory: pytest.TempPathFactory) -> Iterator[House]:
    base = factory.mktemp(f"guarded-{kind}")
    server = GUARDED[kind](base / "store", base / "work", StoreShape())
    with served(server):
        made = House(server, base, [])
        yield made
        for program in made.programs:
            program.child.kill()


@pytest.fixture(scope="module")
def apache_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from running("apache", tmp_path_factory)


@pytest.fixture(scope="module")
def our_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from running("escapement", tmp_path_factory)


@pytest.fixture(scope="module", params=["apache_house", "our_house"])
def house(request: pytest.FixtureRequest) -> House:
    chosen: House = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="module")
def root(house: House) -> MqAdmin:
    """mqadmin of the user who may everything."""
    return house.admin(*ROOT)


@pytest.fixture(scope="module")
def made_users(root: MqAdmin) -> None:
    """carol may send to and read order*, but order-secret; billing is her group."""
    for line in (
        "updateTopic -b {broker} -t order-eu -r 1 -w 1",
        "updateTopic -b {broker} -t order-secret -r 1 -w 1",
        "updateTopic -b {broker} -t salaries -r 1 -w 1",
        "createUser -b {broker} -u carol -p carol-secret",
        "createAcl -b {broker} -s User:carol -r Topic:order*,Group:billing -a Pub,Sub,Get -d Allow",
        "createAcl -b {broker} -s User:carol -r Topic:order-secret -a All -d Deny",
        "createUser -b {broker} -u dave -p dave-secret",
        "createAcl -b {broker} -s User:dave -r * -a All -i 10.0.0.0/8 -d Allow",
    ):
        assert "Exception" not in root.say(line).text, line


def transcript(house: House) -> list[str]:
    root = house.admin(*ROOT)
    return [f"{line.strip()}\n{REMARK.sub('', root.say(line).text)}" for line in SCRIPT.strip().splitlines()]


def test_mqadmin_manages_users_and_policies(apache_house: House, our_house: House) -> None:
    # side by side, as mqadmin mostly waits for its own threads to end
    with ThreadPoolExecutor() as threads:
        theirs, ours = threads.map(transcript, (apache_house, our_house))
    assert ours == theirs


def refusal(ask: Callable[[], object]) -> int:
    """The code of the error that a request must end with."""
    with pytest.raises(ChildFailed) as failed:
        ask()
    return int(str(failed.value).split(":")[0].split()[1])


@pytest.mark.parametrize("version", ["4.9.8", "5.5.0"])
@pytest.mark.parametrize("serialisation", ["JSON", "ROCKETMQ"])
def test_a_client_does_what_its_user_may(house: House, made_users: None, version: str, serialisation: str) -> None:
    carol = house.user("carol", "carol-secret", version, (f"rocketmq.serialize.type={serialisation}",))
    body = f"{version} {serialisation}"
    assert carol.send("order-eu", body)["status"] == "SEND_OK"
    assert carol.pull("billing", "order-eu")["status"] == "FOUND"
    assert refusal(lambda: carol.send("order-secret", body)) == NO_PERMISSION
    assert refusal(lambda: carol.send("salaries", body)) == NO_PERMISSION
    assert refusal(lambda: carol.pull("billing", "order-secret")) == NO_PERMISSION
    assert refusal(lambda: carol.pull("payroll", "order-eu")) == NO_PERMISSION
    carol.consume("billing", "order-eu")
    carol.child.wait_for(
        lambda _: body in {event["body"] for event in carol.events("message")} or None, 60, "the message by push"
    )
    carol.child.kill()  # the group has one queue, which the next one is to read


def test_a_user_counts_where_his_policy_says(house: House, made_users: None) -> None:
    dave = house.user("dave", "dave-secret")
    assert refusal(lambda: dave.send("order-eu", "from here")) == NO_PERMISSION


@pytest.mark.parametrize("credentials", [("carol", "guessed"), ("eve", "eve-secret"), ("", "")])
def test_who_cannot_sign_is_refused(house: House, made_users: None, credentials: tuple[str, str]) -> None:
    """Apache RocketMQ's name server answers routes to anybody; ours does not, so the client knows no broker."""
    eve = house.user(*credentials)
    assert refusal(lambda: eve.send("order-eu", "x")) in {NO_PERMISSION, NO_ROUTE}


def test_a_disabled_user_is_refused_at_once(house: House, root: MqAdmin) -> None:
    root.say("createUser -b {broker} -u frank -p frank-secret -t Super")
    frank = house.user("frank", "frank-secret")
    assert frank.send("order-eu", "before")["status"] == "SEND_OK"
    root.say("updateUser -b {broker} -u frank -s disable")
    refused = refusal(lambda: frank.send("order-eu", "after"))
    assert refused in {NO_PERMISSION, NO_ROUTE}


def test_the_python_clients_sign(house: House, made_users: None) -> None:
    namesrv = house.server.namesrv
    with Producer(namesrv=namesrv, access_key="carol", secret_key="carol-secret") as carol:
        assert carol.send("order-eu", b"by hand").status == "SEND_OK"
        with pytest.raises(BrokerRefused) as refused:
            carol.send("order-secret", b"x")
        assert refused.value.code == 16
    with Admin(namesrv, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        assert "order-eu" in {topic.name for topic in admin.topics()}
    with Admin(namesrv, access_key="carol", secret_key="carol-secret") as admin:
        with pytest.raises(BrokerRefused):
            admin.create_topic("mine")
