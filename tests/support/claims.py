"""A claim on a real cluster of one node, for a folder of that node."""

import contextlib
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def claim_of(cluster, namespace):
    """Make the claim `training` for the length of the block, and yield its folder, to which every pod may write."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfsteps-claim-"))
    folder.chmod(0o777)
    name = f"{namespace}-training"
    cluster.kubectl("apply", "-f", "-", stdin=VOLUME.format(name=name, namespace=namespace, path=folder))
    try:
        yield folder
    finally:
        cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
        shutil.rmtree(folder, ignore_errors=True)


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteMany]
  capacity: {{storage: 1Gi}}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {{path: {path}}}
  claimRef: {{namespace: {namespace}, name: training}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: training, namespace: {namespace}}}
spec:
  accessModes: [ReadWriteMany]
  resources: {{requests: {{storage: 1Gi}}}}
  storageClassName: ""
  volumeName: {name}
"""
