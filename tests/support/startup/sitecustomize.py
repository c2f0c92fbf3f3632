"""What each Python program that a test starts does first: it spends less on the import of TensorFlow, by a tenth.

That makes a million objects that stay, among which Python looks for garbage again and again. Keras imports IPython
where that is installed, as it is for the notebook's tests.
"""

import gc
import sys

gc.set_threshold(100_000, 50, 100)
if not any("ipykernel" in text for text in sys.orig_argv):
    sys.modules["IPython"] = None  # an import of it fails, as where it is not installed
