"""The application of the authorization server: all its routes, middleware and its lifespan."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from authserver import janitor, trials
from authserver.errors import UNREADABLE, HeadersTooLarge, HostUnclear, ServerError
from authserver.oauth import (
    authorize,
    consent,
    device,
    metadata,
    provider_logout,
    registration,
    revocation,
    token,
)
from authserver.oauth.documents import Documents
from authserver.pages import (
    account,
    account_events,
    account_sessions,
    api_access,
    bring,
    categories,
    confirm,
    connected_apps,
    connections,
    deletion,
    devices,
    download,
    goals,
    grant_revocation,
    home,
    join,
    provider_sign_in,
    reset,
    sign_in,
    sign_in_methods,
    user_code,
    welcome,
)
from authserver.people.external_sign_ins import CALLBACK
from authserver.people.passwords import Hasher
from authserver.web import page
from authserver.web.failures import Failures
from authserver.web.page import CanonicalHost
from authserver.web.server import Server, server
from shared import database, hang, jobs, metrics, settings
from shared.application import Application, Refusals
from shared.cors import OpenToAllOrigins
from shared.metrics import Reading
from shared.pool import Pool
from shared.probes import Probes
from shared.settings import Settings
from shared.storage import Storage


def create(
    chosen: Settings | None = None,
    *,
    hasher: Hasher | None = None,
    documents: Documents | None = None,
    clean_every: timedelta = janitor.INTERVAL,
) -> Starlette:
    """Return the application for the settings ``chosen``, by default those of the environment.

    While it runs, the janitor and the trials of rules run about every ``clean_every``, unless the
    setting ``jobs`` is off.
    ``hasher`` hashes passwords, by default with the recommended parameters. ``documents`` are those of
    clients, by default fetched from public addresses alone.
    """
    this = server(chosen or settings.read(), hasher)
    login = database.login(this.settings, "authserver")
    probes = Probes.to(this.settings, login, Storage.of(this.settings))
    for_programs = [*machine_routes(this), *device_authorization_routes(this), *probes.routes()]
    for_machines = [*for_programs, *logout_routes(this)]
    machine_paths = frozenset(route.path for route in for_machines)
    # The provider is no page of another origin.
    paths_for_all_origins = frozenset(route.path for route in for_programs)
    failures = Failures(this.pages, machine_paths)
    workers = Pool.to(login, size=1, is_patient=True)

    def readings() -> Iterator[Reading]:
        return metrics.of_pools({"quick": this.database, "slow": this.slow, "jobs": workers})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        background = [janitor.job(clean_every), trials.job(clean_every)]
        async with (
            workers,
            hang.noticed(probes.alive, [this.database, this.slow]),
            jobs.running(this.settings, workers, background),
            metrics.served(this.settings, this.settings.auth_metrics, "authserver", (readings,)),
        ):
            yield
        for pipelines in (this.database, this.slow, probes):
            pipelines.close()
        if this.provider is not None:
            await this.provider.close()

    return Application(
        routes=[*for_machines, *page_routes(this, documents or Documents()), page.LAYOUT.mount()],
        refusals=Refusals(
            internal_error=failures.always(ServerError()),
            headers_too_large=failures.always(HeadersTooLarge()),
            host_unclear=failures.always(HostUnclear()),
            unreadable=lambda path, status: failures.answer(path, UNREADABLE[status](), {}),
        ),
        exception_handlers=failures.handlers(),
        lifespan=lifespan,
        error_middleware=[Middleware(OpenToAllOrigins, covers=paths_for_all_origins.__contains__)],
        route_middleware=[
            Middleware(CanonicalHost, issuer=this.settings.auth_url, except_paths=machine_paths)
        ],
    )


def machine_routes(this: Server) -> list[Route]:
    """Return the routes for clients: any origin, no cookies, JSON."""
    return [
        Route(metadata.PATH, partial(metadata.show, this), name="metadata"),
        Route(
            "/oauth/register",
            partial(registration.register, this),
            methods=["POST"],
            name="register",
        ),
        Route("/oauth/token", partial(token.issue, this), methods=["POST"], name="token"),
        Route("/oauth/revoke", partial(revocation.revoke, this), methods=["POST"], name="revoke"),
    ]


def device_authorization_routes(this: Server) -> list[Route]:
    """Return the route for devices without a browser, if the operator has switched it on."""
    if not this.settings.device_authorization:
        return []
    return [
        Route(
            device.PATH,
            partial(device.authorize, this),
            methods=["POST"],
            name="device_authorization",
        )
    ]


def logout_routes(this: Server) -> list[Route]:
    """Return the route of logouts that the provider announces, if one is configured."""
    if this.provider is None:
        return []
    return [
        Route(
            provider_logout.PATH,
            partial(provider_logout.receive, this, this.provider),
            methods=["POST"],
            name="receive_provider_logout",
        )
    ]


def page_routes(this: Server, documents: Documents) -> list[Route]:
    """Return the routes of pages, in the order in which a new person needs them."""
    return [
        Route("/join", partial(join.show, this), name="show_join"),
        Route("/join", partial(join.submit, this), methods=["POST"], name="join"),
        *welcome_routes(this),
        Route("/sign-in", partial(sign_in.show, this), name="show_sign_in"),
        Route("/sign-in", partial(sign_in.submit, this), methods=["POST"], name="sign_in"),
        Route("/sign-out", partial(sign_in.show_sign_out, this), name="show_sign_out"),
        Route("/sign-out", partial(sign_in.sign_out, this), methods=["POST"], name="sign_out"),
        Route("/", partial(home.show, this), name="home"),
        Route(home.PATH, partial(home.show_settings, this), name="settings"),
        Route("/confirm", partial(confirm.show, this), name="show_confirm"),
        Route("/confirm", partial(confirm.submit, this), methods=["POST"], name="confirm"),
        Route(confirm.CONFIRMED, partial(confirm.done, this), name="confirmed"),
        Route("/reset", partial(reset.show, this), name="show_reset"),
        Route("/reset", partial(reset.submit, this), methods=["POST"], name="reset"),
        *sign_in_method_routes(this),
        *account_routes(this),
        *bring_routes(this),
        *connection_routes(this),
        *category_routes(this),
        *goal_routes(this),
        *device_routes(this),
        *provider_routes(this),
        *grant_routes(this),
        *user_code_routes(this),
        Route("/oauth/authorize", partial(authorize.show, this, documents), name="authorize"),
        Route("/oauth/consent", partial(consent.show, this, documents), name="show_consent"),
        Route(
            "/oauth/consent",
            partial(consent.decide, this, documents),
            methods=["POST"],
            name="consent",
        ),
    ]


def user_code_routes(this: Server) -> list[Route]:
    """Return the routes of the page for the codes of such devices."""
    if not this.settings.device_authorization:
        return []
    path = user_code.PATH
    return [
        Route(path, partial(user_code.show, this), name="show_user_code"),
        Route(path, partial(user_code.submit, this), methods=["POST"], name="enter_user_code"),
    ]


def welcome_routes(this: Server) -> list[Route]:
    """Return the routes of a new person's first steps."""
    path = welcome.PATH
    return [
        Route(path, partial(welcome.show, this), name="show_welcome"),
        Route(path, partial(welcome.create, this), methods=["POST"], name="create_first_key"),
        Route(f"{path}/seen", partial(welcome.seen, this), name="first_steps"),
        Route(welcome.ANOTHER, partial(welcome.show, this), name="show_another_computer"),
        Route(
            welcome.ANOTHER,
            partial(welcome.create, this),
            methods=["POST"],
            name="create_another_key",
        ),
    ]


def sign_in_method_routes(this: Server) -> list[Route]:
    """Return the routes that change how a person signs in."""
    path = sign_in_methods.PATH
    return [
        Route(path, partial(sign_in_methods.show, this), name="sign_in_methods"),
        Route(
            f"{path}/password",
            partial(sign_in_methods.change_password, this),
            methods=["POST"],
            name="change_password",
        ),
        Route(
            f"{path}/passkeys",
            partial(sign_in_methods.add_passkey, this),
            methods=["POST"],
            name="add_passkey",
        ),
        Route(
            f"{path}/passkeys/remove",
            partial(sign_in_methods.remove_passkey, this),
            methods=["POST"],
            name="remove_passkey",
        ),
    ]


def account_routes(this: Server) -> list[Route]:
    """Return the routes of the pages about an account, except those about its sign-in methods."""
    return [
        Route(account.PATH, partial(account.show, this), name="account"),
        Route(account.PATH, partial(account.save, this), methods=["POST"], name="save_account"),
        Route(account_sessions.PATH, partial(account_sessions.show, this), name="sessions"),
        Route(
            account_sessions.PATH,
            partial(account_sessions.end, this),
            methods=["POST"],
            name="end_sessions",
        ),
        Route(account_events.PATH, partial(account_events.show, this), name="events"),
        Route(download.PATH, partial(download.show, this), name="download"),
        Route(
            download.PATH,
            partial(download.make_token, this),
            methods=["POST"],
            name="make_download_token",
        ),
        Route(deletion.PATH, partial(deletion.show, this), name="show_delete_account"),
        Route(
            deletion.PATH, partial(deletion.submit, this), methods=["POST"], name="delete_account"
        ),
    ]


def bring_routes(this: Server) -> list[Route]:
    """Return the routes of the page about files that a person brings."""
    path = bring.PATH
    return [
        Route(path, partial(bring.show, this), name="bring"),
        Route(
            f"{path}/upload",
            partial(bring.upload, this),
            methods=["POST"],
            name="show_upload_form",
        ),
        Route(
            f"{path}/tickets",
            partial(bring.create_ticket, this),
            methods=["POST"],
            name="create_upload_ticket",
        ),
        Route(
            f"{path}/cancel", partial(bring.cancel, this), methods=["POST"], name="cancel_upload"
        ),
        Route(f"{path}/undo", partial(bring.ask_undo, this), name="show_undo_import"),
        Route(f"{path}/undo", partial(bring.undo, this), methods=["POST"], name="undo_import"),
    ]


def connection_routes(this: Server) -> list[Route]:
    """Return the routes of connections."""
    path = connections.PATH
    return [
        Route(path, partial(connections.show, this), name="show_connections"),
        Route(path, partial(connections.add, this), methods=["POST"], name="add_connection"),
        Route(
            f"{path}/key",
            partial(connections.renew_key, this),
            methods=["POST"],
            name="renew_connection_key",
        ),
        Route(
            f"{path}/secrets",
            partial(connections.renew_secrets, this),
            methods=["POST"],
            name="renew_connection_secrets",
        ),
        Route(
            f"{path}/settings",
            partial(connections.change_settings, this),
            methods=["POST"],
            name="change_connection_settings",
        ),
        Route(
            f"{path}/pause",
            partial(connections.pause, this),
            methods=["POST"],
            name="pause_connection",
        ),
        Route(
            f"{path}/pull",
            partial(connections.pull, this),
            methods=["POST"],
            name="pull_connection",
        ),
        Route(f"{path}/end", partial(connections.ask_end, this), name="show_end_connection"),
        Route(
            f"{path}/end", partial(connections.end, this), methods=["POST"], name="end_connection"
        ),
    ]


def category_routes(this: Server) -> list[Route]:
    """Return the routes of category rules and scores."""
    path = categories.PATH
    return [
        Route(path, partial(categories.show, this), name="categories"),
        Route(
            f"{path}/put", partial(categories.put, this), methods=["POST"], name="put_into_category"
        ),
        Route(
            f"{path}/rules",
            partial(categories.add, this),
            methods=["POST"],
            name="add_category_rule",
        ),
        Route(
            f"{path}/order",
            partial(categories.change, this),
            methods=["POST"],
            name="change_category_rule",
        ),
        Route(
            f"{path}/scores",
            partial(categories.score, this),
            methods=["POST"],
            name="score_category",
        ),
    ]


def goal_routes(this: Server) -> list[Route]:
    """Return the routes of goals."""
    path = goals.PATH
    return [
        Route(path, partial(goals.show, this), name="show_goals"),
        Route(path, partial(goals.save, this), methods=["POST"], name="save_goal"),
        Route(f"{path}/change", partial(goals.change, this), methods=["POST"], name="change_goal"),
        Route(
            f"{path}/restore", partial(goals.restore, this), methods=["POST"], name="restore_goal"
        ),
    ]


def device_routes(this: Server) -> list[Route]:
    """Return the routes of devices."""
    path = devices.PATH
    return [
        Route(path, partial(devices.show, this), name="show_devices"),
        Route(
            f"{path}/name", partial(devices.rename, this), methods=["POST"], name="rename_device"
        ),
        Route(
            f"{path}/retire", partial(devices.retire, this), methods=["POST"], name="retire_device"
        ),
    ]


def provider_routes(this: Server) -> list[Route]:
    """Return the routes of sign-in through the provider, if one is configured."""
    if this.provider is None:
        return []
    return [
        Route(
            "/sign-in/provider",
            partial(provider_sign_in.depart, this),
            methods=["POST"],
            name="depart_for_provider",
        ),
        Route(
            CALLBACK,
            partial(provider_sign_in.arrive, this),
            name="arrive_from_provider",
        ),
        Route(
            "/settings/account/provider/connect",
            partial(provider_sign_in.connect, this),
            methods=["POST"],
            name="connect_provider",
        ),
        Route(
            "/settings/account/provider/disconnect",
            partial(provider_sign_in.disconnect, this),
            methods=["POST"],
            name="disconnect_provider",
        ),
    ]


def grant_routes(this: Server) -> list[Route]:
    """Return the routes of API tokens and connected applications."""
    return [
        Route(api_access.PATH, partial(api_access.show, this), name="api_access"),
        Route(
            api_access.PATH,
            partial(api_access.create, this),
            methods=["POST"],
            name="create_api_token",
        ),
        Route(connected_apps.PATH, partial(connected_apps.show, this), name="connected_apps"),
        Route("/settings/revoke", partial(grant_revocation.show, this), name="show_revoke"),
        Route(
            "/settings/revoke",
            partial(grant_revocation.revoke, this),
            methods=["POST"],
            name="revoke_grant",
        ),
    ]
