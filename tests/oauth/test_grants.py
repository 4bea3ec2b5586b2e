"""The life cycle of a grant, compared with a model of it.

Hypothesis generates sequences of consents, exchanges, refreshes, revocations, passing time and deleted
accounts, with every possible error in each, and sends them to the authorization server. The model knows the
expected state: which code is spent, which token is live, with which scopes and for which resource. Each rule
compares the response with it. After each step, every access token ever issued must open a session of the
resource server exactly if the model says so.

When a sequence fails, hypothesis prints it as a program, with a line that makes ``Life`` repeat it.
"""

import asyncio
import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import hypothesis
import psycopg
import pytest
from httpx2 import Response
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from authserver import events, rows
from authserver.oauth import grants
from shared import SCHEMA_VERSION, tokens
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.oauth.conftest import Register, Welcome
from tests.oauth.visitor import Application, Visitor, parameters

Rows = psycopg.Connection[Any]

RESOURCES: Final = ("http://testserver", "http://testserver/mcp")
FOREIGN_RESOURCE: Final = "https://other.example"
REDIRECT_URIS: Final = ("https://app.example/callback", "http://127.0.0.1:3000/callback")
STRANGER: Final = "svc_client_0000000000000000000000"
"""A client id that was never registered."""

# In canonical order, so that the model needs no order of its own.
SCOPES: Final = ("read:activity", "read:music", "read:profile", "ingest:app_sessions")

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
# All multiples of half a minute, as the lifetimes are: what is live at the end of a sequence was live with
# half a minute to spare, which no sequence takes.
AMOUNTS: Final = (30, MINUTE, HOUR - 30, HOUR - 30, HOUR, 89 * DAY, 90 * DAY)


@dataclass
class User:
    """A person with an account, and the browser in which they are signed in."""

    person: Person
    browser: Visitor = field(repr=False)
    is_deleted: bool = False


@dataclass
class Grant:
    """A grant of the model."""

    grant_id: UUID
    user: User
    application: Application
    scopes: tuple[str, ...]
    resource: str | None
    pairs: list["Pair"] = field(default_factory=list, repr=False)
    """All issued ones; the application holds the last."""
    code: "Code | None" = field(default=None, repr=False)
    is_revoked: bool = False

    @property
    def is_live(self) -> bool:
        """Whether any token of it can still be used."""
        return not self.is_revoked and not self.user.is_deleted


@dataclass
class Code:
    """A code, and the parameters that must be presented with it."""

    text: str = field(repr=False)
    grant: Grant
    redirect_uri: str
    verifier: str
    expires_at: int
    is_spent: bool = False

    def presented(self) -> dict[str, str | None]:
        """Return the correct parameters for it."""
        return {
            "client_id": self.grant.application.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": self.grant.resource,
        }


@dataclass
class Pair:
    """An access token and the refresh token that came with it."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    grant: Grant
    scopes: tuple[str, ...]
    access_expires_at: int
    refresh_expires_at: int
    is_access_revoked: bool = False
    is_rotated: bool = False

    def opens_something(self, clock: int) -> bool:
        """Tell whether the access token is live at that time."""
        return self.grant.is_live and not self.is_access_revoked and clock < self.access_expires_at

    def can_be_refreshed(self, clock: int) -> bool:
        """Tell whether the refresh token is live at that time."""
        return self.grant.is_live and not self.is_rotated and clock < self.refresh_expires_at


@dataclass(frozen=True)
class Request:
    """The scopes that an application requests, and those that the person unticks."""

    user: int
    client: int
    redirect_uri: str
    asked: tuple[str, ...]
    unticked: tuple[str, ...]
    resource: str | None


@dataclass(frozen=True)
class World:
    """The database and the factories that all sequences share."""

    settings: Settings
    owner: Rows
    reader: Rows
    aging: list[str]
    """Statements that shift all times into the past."""
    welcome: Welcome
    applications: tuple[Application, Application]


def verifier_and_challenge(number: int) -> tuple[str, str]:
    """Return the verifier of one authorization request and its challenge (RFC 7636)."""
    verifier = f"a-verifier-of-at-least-forty-three-characters-{number}"
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def in_order(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return scopes in canonical order."""
    return tuple(scope for scope in SCOPES if scope in set(scopes))


WIDTHS: Final = st.sets(st.sampled_from(SCOPES), min_size=1).map(in_order)
WHICH: Final = st.sampled_from((0, 1))
WRONG_WITH_A_TOKEN: Final = ("other client", "stranger", *RESOURCES, FOREIGN_RESOURCE)
"""Wrong parameters beside a token; a wrong resource may equal the right one."""
WRONG_WITH_A_CODE: Final = (*WRONG_WITH_A_TOKEN, "no resource", "redirect_uri", "code_verifier")
FIRST: Final = ("nothing", "a minute passes", "its owner revokes it", *WRONG_WITH_A_CODE)
"""Wrong requests between a consent and the exchange; they must not spend the code."""
REQUESTS: Final = st.builds(
    Request,
    user=WHICH,
    client=WHICH,
    redirect_uri=st.sampled_from(REDIRECT_URIS),
    asked=st.one_of(st.just(SCOPES), WIDTHS),
    unticked=st.one_of(st.just(()), WIDTHS),
    resource=st.sampled_from((None, *RESOURCES)),
)


def refused(response: Response, error: str) -> None:
    """Assert that a response is exactly this OAuth error."""
    assert response.status_code == (401 if error == "invalid_client" else 400), response.text
    assert response.json().keys() == {"error", "error_description"}
    assert response.json()["error"] == error
    assert response.headers["cache-control"] == "no-store"


def session(reader: Rows, text: str, *resources: str) -> tuple[str, ...] | None:
    """Return the scopes of the session that a token opens for any of ``resources``, None for no session."""
    token = tokens.parse(tokens.ACCESS, text)
    assert token is not None
    # Two statements in one message are one transaction, as a session needs them to be.
    cursor = psycopg.ClientCursor(reader)
    try:
        cursor.execute(
            "call svc.open_token_session(%s, %s, array[]::text[], %s, p_version => %s);"
            "select current_setting('svc.scopes')",
            [token.user_id, token.hash, list(resources), SCHEMA_VERSION],
        )
    except psycopg.Error as error:
        if error.sqlstate != "SV401":
            raise
        return None
    cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    return tuple(row[0].split(" "))


def grant_of(world: World, code: str) -> UUID:
    """Return the id of the grant that a code was issued for."""
    token = tokens.parse(tokens.CODE, code)
    assert token is not None
    row = world.owner.execute(
        "select grant_id from oauth.authorization_code where code_hash = %s", [token.hash]
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def revoke_as_owner(world: World, user: User, grant: Grant) -> bool:
    """Revoke a grant as ``user`` and return whether it was live."""

    async def revoke() -> bool:
        async with rows.connected(world.settings) as database:
            return await grants.revoke(
                database, user.person.user_id, grant.grant_id, events.COMMAND
            )

    return asyncio.run(revoke())


def aging(owner: Rows) -> list[str]:
    """Return a statement for each table of grants and tokens that moves all its times back."""
    rows = owner.execute(
        """
        select format('update oauth.%I set ', table_name)
               || string_agg(format('%1$I = %1$I - $1', column_name), ', ')
          from information_schema.columns
         where table_schema = 'oauth'
           and table_name in ('grant', 'authorization_code', 'refresh_token', 'access_token')
           and data_type = 'timestamp with time zone'
         group by table_name
        """
    ).fetchall()
    assert len(rows) == 4
    return [row[0].replace("$1", "%(amount)s") for row in rows]


STORIES: Final = hypothesis.settings(
    # Many short stories go to more places than few long ones.
    max_examples=hypothesis.settings().max_examples * 3 // 2,
    stateful_step_count=15,
    print_blob=True,
    # Finding the lines that only failing sequences ran takes minutes and seldom helps.
    phases=set(hypothesis.Phase) - {hypothesis.Phase.explain},
)


class GrantLifeCycle(RuleBasedStateMachine):
    """Sequences with two people and two applications."""

    codes: Bundle[Code] = Bundle("codes")
    pairs: Bundle[Pair] = Bundle("pairs")

    def __init__(self, world: World) -> None:
        """Begin without grants."""
        super().__init__()
        self.world = world
        self.users = [self.new_user("alice"), self.new_user("bob")]
        self.clock = 0
        self.requests = 0
        self.issued: list[Pair] = []

    def teardown(self) -> None:
        """Leave no account behind."""
        self.world.owner.execute("delete from identity.user")

    def new_user(self, name: str) -> User:
        """Return a person who has just joined and signed in."""
        row = self.world.owner.execute(
            "insert into identity.user (email) values (%s) returning user_id",
            [f"{name}@example.org"],
        ).fetchone()
        assert row is not None
        person = Person(row[0], f"{name}@example.org", self.world.owner)
        return User(person, self.world.welcome(person))

    def client_id(self, grant: Grant, whose: str) -> str:
        """Return a client id, right or wrong, for a code or token of ``grant``."""
        others = (each for each in self.world.applications if each is not grant.application)
        return {
            "own client": grant.application.client_id,
            "other client": next(others).client_id,
            "stranger": STRANGER,
        }[whose]

    def replacement(
        self, wrong: str, grant: Grant, redirect_uri: str | None = None
    ) -> dict[str, str | None]:
        """Return a wrong value for a parameter beside a code or token of ``grant``."""
        if wrong in ("own client", "other client", "stranger"):
            return {"client_id": self.client_id(grant, wrong)}
        if wrong == "redirect_uri":
            return {wrong: next(uri for uri in REDIRECT_URIS if uri != redirect_uri)}
        if wrong == "code_verifier":
            verifier, _ = verifier_and_challenge(0)
            return {wrong: verifier}
        return {"resource": None if wrong == "no resource" else wrong}

    def issued_pair(self, response: Response, grant: Grant) -> Pair:
        """Return the pair that the server has to have answered with."""
        assert response.status_code == 200, response.text
        body = response.json()
        assert body["scope"] == " ".join(grant.scopes)
        pair = Pair(
            body["access_token"],
            body["refresh_token"],
            grant,
            grant.scopes,
            access_expires_at=self.clock + HOUR,
            refresh_expires_at=self.clock + 90 * DAY,
        )
        grant.pairs.append(pair)
        self.issued.append(pair)
        return pair

    # Consent and exchange.

    @initialize(target=codes, request=REQUESTS)
    def begin_with_a_code(self, request: Request) -> Code:
        """Have no story without a code."""
        return self.consent(request)

    @initialize(target=pairs, request=REQUESTS, first=st.sampled_from(FIRST))
    def begin_with_a_pair(self, request: Request, first: str) -> MultipleResults[Pair]:
        """Have hardly a story without tokens."""
        return self.present_at_last(self.consent(request), first)

    @rule(target=codes, request=REQUESTS)
    def authorize(self, request: Request) -> Code:
        """A person consents to an application."""
        return self.consent(request)

    @rule(target=pairs, request=REQUESTS, first=st.sampled_from(FIRST))
    def connect(self, request: Request, first: str) -> MultipleResults[Pair]:
        """A person consents to an application, which redeems the code after some wrong requests."""
        return self.present_at_last(self.consent(request), first)

    def consent(self, request: Request) -> Code:
        """Consent to the scopes that stay ticked, or to all of them if none does."""
        user, application = self.users[request.user], self.world.applications[request.client]
        granted = in_order(set(request.asked) - set(request.unticked)) or request.asked
        self.requests += 1
        verifier, challenge = verifier_and_challenge(self.requests)

        path = application.authorize_path(
            redirect_uri=request.redirect_uri,
            scope=" ".join(request.asked),
            resource=request.resource,
            code_challenge=challenge,
        )
        page = user.browser.follow(user.browser.get(path))
        decided = user.browser.submit(page, decision="allow", scope=list(granted))

        assert decided.status_code == 303
        assert decided.headers["location"].startswith(f"{request.redirect_uri}?code=")
        text = parameters(decided)["code"][0]
        grant = Grant(grant_of(self.world, text), user, application, granted, request.resource)
        grant.code = Code(text, grant, request.redirect_uri, verifier, self.clock + MINUTE)
        return grant.code

    @rule(target=pairs, code=codes)
    def exchange(self, code: Code) -> MultipleResults[Pair]:
        """The application presents its code, for the first time or again."""
        return self.present_code(code)

    @rule(target=pairs, code=codes, wrong=st.sampled_from(WRONG_WITH_A_CODE))
    def exchange_wrongly(self, code: Code, wrong: str) -> MultipleResults[Pair]:
        """A code is presented with possibly wrong parameters, for the first time or again."""
        return self.present_code(code, **self.replacement(wrong, code.grant, code.redirect_uri))

    @rule(
        target=pairs, pair=pairs, whose=st.sampled_from(("own client", "other client", "stranger"))
    )
    def exchange_again(self, pair: Pair, whose: str) -> MultipleResults[Pair]:
        """A spent code is presented, by any client."""
        code = pair.grant.code
        assert code is not None
        return self.present_code(code, client_id=self.client_id(pair.grant, whose))

    def present_at_last(self, code: Code, first: str) -> MultipleResults[Pair]:
        """Present a new code, after something that may spoil it, or a presentation that may be wrong."""
        if first == "a minute passes":
            self.grow_older(MINUTE)
        elif first == "its owner revokes it":
            self.take_back(code.grant, code.grant.user)
        elif first != "nothing":
            replacement = self.replacement(first, code.grant, code.redirect_uri)
            presented = self.present_code(code, **replacement)
            if code.is_spent:
                return presented
        return self.present_code(code)

    def present_code(self, code: Code, **replaced: str | None) -> MultipleResults[Pair]:
        """Present a code with its parameters and some replacements, and check the response."""
        presented = code.presented() | replaced
        expected = self.error_of_exchange(code, presented)

        response = self.world.applications[0].exchange(code.text, **presented)

        if expected is not None:
            refused(response, expected)
            return multiple()
        code.is_spent = True
        return multiple(self.issued_pair(response, code.grant))

    def error_of_exchange(self, code: Code, presented: dict[str, str | None]) -> str | None:
        """Return the expected error of an exchange, or None; a replay revokes the grant of the model."""
        if code.is_spent and not code.grant.user.is_deleted:
            code.grant.is_revoked = True
            return "invalid_grant"
        if presented["resource"] == FOREIGN_RESOURCE:
            return "invalid_target"
        if presented["client_id"] == STRANGER:
            return "invalid_client"
        own = code.presented()
        fits = all(presented[name] == own[name] for name in own if name != "resource")
        if not fits or not code.grant.is_live or code.expires_at <= self.clock:
            return "invalid_grant"
        return None if presented["resource"] == own["resource"] else "invalid_target"

    # Refresh. Applications have the newest pair; one rule presents any earlier one.

    @rule(target=pairs, pair=pairs)
    def refresh(self, pair: Pair) -> MultipleResults[Pair]:
        """The application presents its refresh token."""
        return self.present_refresh_token(pair.grant.pairs[-1])

    @rule(target=pairs, pair=pairs, seconds=st.sampled_from((HOUR, 89 * DAY, 90 * DAY)))
    def refresh_late(self, pair: Pair, seconds: int) -> MultipleResults[Pair]:
        """The application presents its refresh token after a while."""
        self.grow_older(seconds)
        return self.present_refresh_token(pair.grant.pairs[-1])

    @rule(target=pairs, pair=pairs)
    def refresh_twice_in_time(self, pair: Pair) -> MultipleResults[Pair]:
        """The application refreshes each time just before its refresh token expires."""
        self.grow_older(89 * DAY)
        self.present_refresh_token(pair.grant.pairs[-1])
        self.grow_older(89 * DAY)
        return self.present_refresh_token(pair.grant.pairs[-1])

    @rule(target=pairs, pair=pairs, wrong=st.sampled_from(("own client", *WRONG_WITH_A_TOKEN)))
    def refresh_with_an_old_token(self, pair: Pair, wrong: str) -> MultipleResults[Pair]:
        """An old refresh token is presented with possibly wrong parameters."""
        old = pair.grant.pairs[0] if pair is pair.grant.pairs[-1] else pair
        return self.present_refresh_token(old, **self.replacement(wrong, pair.grant))

    @rule(target=pairs, pair=pairs, wrong=st.sampled_from(WRONG_WITH_A_TOKEN))
    def refresh_wrongly(self, pair: Pair, wrong: str) -> MultipleResults[Pair]:
        """The newest refresh token is presented with possibly wrong parameters."""
        return self.present_refresh_token(
            pair.grant.pairs[-1], **self.replacement(wrong, pair.grant)
        )

    @rule(target=pairs, pair=pairs, left=st.sampled_from(SCOPES))
    def narrow(self, pair: Pair, left: str) -> MultipleResults[Pair]:
        """The application requests fewer scopes than it has, or the same if none would be left."""
        kept = in_order(set(pair.grant.scopes) - {left}) or pair.grant.scopes
        return self.present_refresh_token(pair.grant.pairs[-1], scope=" ".join(kept))

    @rule(target=pairs, pair=pairs, wanted=WIDTHS)
    def widen(self, pair: Pair, wanted: tuple[str, ...]) -> MultipleResults[Pair]:
        """The application requests a scope that it does not have, or no longer has."""
        beyond = set(SCOPES) - set(pair.grant.scopes) or {"read:health"}
        wider = sorted({*wanted, *beyond})
        return self.present_refresh_token(pair.grant.pairs[-1], scope=" ".join(wider))

    def present_refresh_token(self, pair: Pair, **replaced: str | None) -> MultipleResults[Pair]:
        """Present a refresh token with its parameters and some replacements, and check the response."""
        grant = pair.grant
        presented = {
            "client_id": grant.application.client_id,
            "resource": None,
            "scope": None,
        } | replaced
        expected = self.error_of_refresh(pair, presented)

        response = self.world.applications[0].refresh(pair.refresh_token, **presented)

        if expected is not None:
            refused(response, expected)
            return multiple()
        pair.is_rotated = True
        if presented["scope"] is not None:
            grant.scopes = in_order(presented["scope"].split())
        return multiple(self.issued_pair(response, grant))

    def error_of_refresh(self, pair: Pair, presented: dict[str, str | None]) -> str | None:
        """Return the expected error of a refresh, or None; a replay revokes the grant of the model."""
        grant = pair.grant
        if pair.is_rotated and not grant.user.is_deleted:
            grant.is_revoked = True
            return "invalid_grant"
        if presented["resource"] == FOREIGN_RESOURCE:
            return "invalid_target"
        if presented["client_id"] == STRANGER:
            return "invalid_client"
        is_own = presented["client_id"] == grant.application.client_id
        if not is_own or not grant.is_live or pair.refresh_expires_at <= self.clock:
            return "invalid_grant"
        if presented["resource"] not in (None, grant.resource):
            return "invalid_target"
        asked = (presented["scope"] or "").split()
        return None if set(asked) <= set(grant.scopes) else "invalid_scope"

    # Ends.

    @rule(
        target=pairs,
        pair=pairs,
        is_refresh=st.booleans(),
        says_who=st.booleans(),
        goes_on=st.booleans(),
    )
    def revoke_by_client(
        self, pair: Pair, is_refresh: bool, says_who: bool, goes_on: bool
    ) -> MultipleResults[Pair]:
        """The application revokes a token, and may try to refresh afterwards."""
        self.give_back(pair, is_refresh=is_refresh, says_who=says_who)
        return self.present_refresh_token(pair.grant.pairs[-1]) if goes_on else multiple()

    @rule(pair=pairs, says_who=st.booleans())
    def refresh_and_revoke_by_the_old_token(self, pair: Pair, says_who: bool) -> None:
        """The application refreshes, and revokes its previous refresh token."""
        before = pair.grant.pairs[-1]
        self.present_refresh_token(before)
        self.give_back(before, is_refresh=True, says_who=says_who)

    def give_back(self, pair: Pair, *, is_refresh: bool, says_who: bool) -> None:
        """Revoke a token with or without the client id."""
        token = pair.refresh_token if is_refresh else pair.access_token
        client_id = pair.grant.application.client_id if says_who else ""

        response = self.world.applications[0].revoke(token, client_id=client_id)

        assert response.status_code == 200
        if is_refresh:
            pair.grant.is_revoked = True
        else:
            pair.is_access_revoked = True

    @rule(pair=pairs, client=st.sampled_from(("other client", "stranger")))
    def revoke_by_another_client(self, pair: Pair, client: str) -> None:
        """Another application, registered or not, revokes both tokens, which changes nothing."""
        client_id = self.client_id(pair.grant, client)

        for token in (pair.access_token, pair.refresh_token):
            response = self.world.applications[0].revoke(token, client_id=client_id)
            assert response.status_code == 200

    @rule(held=st.one_of(codes, pairs), is_owner=st.booleans())
    def revoke_by_owner(self, held: Code | Pair, is_owner: bool) -> None:
        """A person revokes a grant of their own, or tries to revoke another person's."""
        other = next(user for user in self.users if user is not held.grant.user)
        self.take_back(held.grant, held.grant.user if is_owner else other)

    def take_back(self, grant: Grant, user: User) -> None:
        """Revoke a grant as ``user``; it fails if the grant is another person's or has ended."""
        is_theirs = user is grant.user

        is_revoked = revoke_as_owner(self.world, user, grant)

        assert is_revoked == (is_theirs and grant.is_live)
        grant.is_revoked = grant.is_revoked or is_theirs

    @rule(seconds=st.sampled_from(AMOUNTS))
    def time_passes(self, seconds: int) -> None:
        """Time passes."""
        self.grow_older(seconds)

    def grow_older(self, seconds: int) -> None:
        """Move all times of everybody's grants, codes and tokens back."""
        for statement in self.world.aging:
            self.world.owner.execute(statement, {"amount": timedelta(seconds=seconds)})
        self.clock += seconds

    @rule(user=WHICH)
    def delete_user(self, user: int) -> None:
        """A person deletes their account and joins again with the same address."""
        gone = self.users[user]
        self.world.owner.execute(
            "delete from identity.user where user_id = %s", [gone.person.user_id]
        )
        gone.is_deleted = True
        self.users[user] = self.new_user(gone.person.email.partition("@")[0])

    # The invariants after each step.

    @invariant()
    def an_access_token_opens_a_session_exactly_while_it_should(self) -> None:
        """Send every token ever issued to the resource server, for each resource."""
        for pair in self.issued:
            if not pair.opens_something(self.clock):
                assert session(self.world.reader, pair.access_token, *RESOURCES) is None, pair
                continue
            for resource in RESOURCES:
                # The scopes of the token that its grant still has.
                held = in_order(set(pair.scopes) & set(pair.grant.scopes))
                expected = held if pair.grant.resource in (None, resource) else None
                opened = session(self.world.reader, pair.access_token, resource)
                assert opened == expected, (pair, resource)

    @invariant()
    def live_tokens_are_those_of_the_model(self) -> None:
        """The live tokens in the database are those of the model, with one refresh token per grant."""
        row = self.world.owner.execute(
            """
            select (select count(*) from oauth.live_access_token),
                   (
                       select count(*)
                         from oauth.refresh_token
                         join oauth.grant as token_grant using (user_id, grant_id)
                        where refresh_token.rotated_at is null
                          and refresh_token.expires_at > now()
                          and token_grant.revoked_at is null
                   ),
                   coalesce(max(current), 0)
              from (
                       select count(*) filter (where rotated_at is null) as current
                         from oauth.refresh_token
                        group by user_id, grant_id
                   ) as per_grant
            """
        ).fetchone()
        assert row is not None
        access_tokens, refresh_tokens, most_current_ones_of_a_grant = row
        assert access_tokens == sum(pair.opens_something(self.clock) for pair in self.issued)
        assert refresh_tokens == sum(pair.can_be_refreshed(self.clock) for pair in self.issued)
        assert most_current_ones_of_a_grant <= 1


@pytest.mark.hypothesis
def test_the_server_agrees_with_the_model_in_every_sequence(
    settings: Settings,
    owner: Rows,
    connect_as: Connect,
    welcome: Welcome,
    register: Register,
) -> None:
    world = World(
        settings,
        owner,
        connect_as("reader"),
        aging(owner),
        welcome,
        (register(redirect_uris=REDIRECT_URIS), register(redirect_uris=REDIRECT_URIS)),
    )

    class Life(GrantLifeCycle):
        def __init__(self) -> None:
            super().__init__(world)

    run_state_machine_as_test(Life, settings=STORIES)
