"""What the programs that these tests start get: a cheaper import of TensorFlow."""

import os

from tests.support import startup

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [startup.FOLDER, os.environ.get("PYTHONPATH")]))
