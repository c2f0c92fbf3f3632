"""A server of Google Cloud Storage on this machine: its JSON API, or its XML API."""

import contextlib
import json
import threading

from gcp_storage_emulator.server import create_server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.support import s3
from tfsteps.tensorboard.process import _free_port


@contextlib.contextmanager
def served_bucket(name):
    """Yield the address of a server with one empty bucket; it has the JSON API alone, which gcsfs uses."""
    port = int(_free_port(""))
    with create_server("127.0.0.1", port, in_memory=True, default_bucket=name):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def served_xml_bucket(name):
    """Yield the variables of a client of a server with one empty bucket; it has the XML API alone, as obstore does.

    Google has made its XML API like S3's: objects, listings and errors are alike, and a token takes the place of the
    signature.
    """
    storage = DomainDispatcherApplication(create_backend_app)

    def application(environ, start_response):
        credential = "Credential=a/20260101/us-east-1/s3/aws4_request"
        return storage({**environ, "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 {credential}"}, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    try:
        bucket = s3.bucket_at(address, name)
        yield {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)}
        bucket.objects.delete()
    finally:
        server.shutdown()
        server.server_close()
