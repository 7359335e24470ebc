"""Connect to a Temporal server: by address, by Temporal's settings, or to this machine's embedded server."""

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path
from typing import Final, NamedTuple

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Interceptor
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.service import GrpcCompression, RPCError

from chargehand.converter import data_converter
from chargehand.errors import AccessDenied, ChargehandError, NotReachable, UnusableSettings
from chargehand.local_server import TEMPORAL_PORT, is_loopback, running_server, state_directory
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.settings import protection_from
from chargehand.payloads.storage import Storage
from chargehand.plugins import Hook, installed
from chargehand.temporal_errors import of_call

USUAL: Final = f"localhost:{TEMPORAL_PORT}"
_TLS: Final = "TEMPORAL_TLS_… and TEMPORAL_API_KEY decide that; TEMPORAL_TLS=true or false overrides them."
_HALF: Final = "TEMPORAL_TLS_CLIENT_CERT_PATH and …_KEY_PATH belong together: set both, or neither."
_REASONS: Final[Mapping[str, tuple[type[ChargehandError], str]]] = {
    "dns error": (NotReachable, "The host of {address} is unknown. TEMPORAL_ADDRESS is HOST:PORT."),
    "ConnectionRefused": (
        NotReachable,
        "No Temporal server answers at {address}. Is it running? TEMPORAL_ADDRESS names another.",
    ),
    "TimeoutExpired": (
        NotReachable,
        "{address} takes connections and answers too slowly: it is overloaded, starting, or no Temporal server.",
    ),
    "InvalidContentType": (UnusableSettings, f"The server at {{address}} has no TLS, and this client uses it: {_TLS}"),
    "PrivateKeyParse|CertificateParse": (UnusableSettings, "The client certificate or its key is not PEM."),
    "UnknownIssuer|CaUsedAsEndEntity": (
        AccessDenied,
        "The certificate of {address} is not trusted here: set TEMPORAL_TLS_SERVER_CA_CERT_PATH to its authority's.",
    ),
    "NotValidForName": (
        AccessDenied,
        "The certificate of {address} is for another host: connect by its name, or set TEMPORAL_TLS_SERVER_NAME.",
    ),
    "Expired": (AccessDenied, "The certificate of {address} has expired."),
    "CertificateRequired|CertificateUnknown|UnknownCA|BadCertificate|HandshakeFailure|DecryptError|close_notify": (
        AccessDenied,
        "The server at {address} refuses this client's certificate: set TEMPORAL_TLS_CLIENT_CERT_PATH and …_KEY_PATH.",
    ),
    "Unauthenticated|PermissionDenied": (
        AccessDenied,
        "The server at {address} denies access{detail}. Check TEMPORAL_API_KEY and TEMPORAL_NAMESPACE.",
    ),
}
"""Meaning of error texts of the SDK's Rust core, checked in order."""


class Connected(NamedTuple):
    """A connection, and where its workers read documents."""

    client: Client
    encryption: Encryption | None
    artifacts: str | None


async def connect(
    address: str | None,
    encryption: Encryption | None,
    storage: Storage | None,
    environment: Mapping[str, str] = os.environ,
) -> Connected:
    """Connect, and check that the namespace can be used."""
    options = connection_settings(environment)
    if address:
        options["target_host"] = address
    local = (
        None if options.get("target_host") else running_server(state_directory(environment, Path.home(), Path.cwd()))
    )
    target = options["target_host"] = options.get("target_host") or (local.address if local else USUAL)
    namespace = options.get("namespace") or "default"
    usual_storage = str(local.state / "payloads") if local else None
    protection = protection_from(environment, namespace, usual_storage=usual_storage)
    encryption = encryption or protection.encryption
    with explained(target):
        client = await Client.connect(
            **options,
            grpc_compression=grpc_compression(target),
            data_converter=data_converter(encryption, storage or protection.storage),
            interceptors=[
                each.build(Interceptor, "interceptor") for each in installed().hooks.get(Hook.CONNECTION, ())
            ],
        )
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    usual_artifacts = str(local.state / "artifacts") if local else None
    return Connected(client, encryption, environment.get("CHARGEHAND_ARTIFACTS") or usual_artifacts)


def grpc_compression(address: str | None) -> GrpcCompression:
    """Enable compression only across a network; on one host it wastes a tenth of all CPU time."""
    host = (address or USUAL).rpartition(":")[0].strip("[]")
    return GrpcCompression.NONE if is_loopback(host) else GrpcCompression.GZIP


def connection_settings(environment: Mapping[str, str] = os.environ) -> ClientConnectConfig:
    """Read Temporal's own settings without opening a pipe that would block. Raises `UnusableSettings`."""
    file = environment.get("TEMPORAL_CONFIG_FILE")
    if file and file != os.devnull and not Path(file).is_file():
        raise UnusableSettings(f"TEMPORAL_CONFIG_FILE: there is no file {file}.")
    try:
        profile = ClientConfigProfile.load(override_env_vars=dict(environment))
        for source in vars(profile.tls).values() if profile.tls else ():
            _require_regular(source)
        return profile.to_client_connect_config()
    except OSError as error:
        what = f"{error.filename}, which a TEMPORAL_TLS_… setting or a profile names"
        raise UnusableSettings(f"{what}, cannot be read: {error.strerror}.") from error
    except Exception as error:  # the SDK's type is private
        name = environment.get("TEMPORAL_PROFILE")
        remedy = f" TEMPORAL_PROFILE names it; profiles are in {file or 'temporal.toml'}." if name else ""
        raise UnusableSettings(f"Temporal's settings cannot be used: {error}.{remedy}") from error


def _require_regular(source: object) -> None:
    if isinstance(source, Path) and source.exists() and not source.is_file():
        raise OSError(EINVAL, "it is not a regular file", str(source))


@contextmanager
def explained(target: str) -> Generator[None]:
    """Translate connection errors to those of `chargehand.errors`."""
    not_an_address = UnusableSettings(f"{target!r} is not the address of a server: write HOST:PORT, such as {USUAL}.")
    if "://" in target:
        raise not_an_address
    try:
        yield
    except ValueError as error:
        raise (UnusableSettings(_HALF) if "private key" in str(error) else not_an_address) from error
    except RPCError as error:
        raise of_call("", error) from error
    except RuntimeError as error:
        raise _refusal(target, str(error)) from error


def _refusal(address: str, words: str) -> ChargehandError:
    for pattern, (kind, message) in _REASONS.items():
        if re.search(pattern, words):
            match = re.search(r'message: "([^"]+)"', words)
            return kind(message.format(address=address, detail=f": {match[1].rstrip('.')}" if match else ""))
    return NotReachable(f"The server at {address} does not answer as a Temporal server. It may expect TLS. {_TLS}")
