"""Trains with parameter servers on Argo Workflows: the workers share the variables on two servers.

`python pipelines/parameter_server_argo.py` prints the Workflow, `--compile` writes
pipelines/compiled/parameter_server.argo.yaml.
"""

from digits_argo import CLAIM, evaluate, job, main, prepare, train, workflow
from hera.workflows import DAG

INPUTS = {
    "workers": (2, "Number of workers; one that is lost is not waited for, the others take over its steps."),
    "servers": (2, "Number of parameter servers."),
    "examples": (10_000, "Number of digits to train with."),
    "settings": ({}, 'Variables of the training program, such as {"EPOCHS": "3"}.'),
    "claim": (CLAIM, "The PersistentVolumeClaim for data and results."),
}

with workflow("parameter-server", "Digits: train with parameter servers, evaluate.", INPUTS) as parameter_server:
    parameter = parameter_server.get_parameter
    with DAG(name="main"):
        drawn = prepare(examples=parameter("examples"), seed=1)
        file = drawn.get_parameter("file")
        trained = train(
            "train",
            spec=job("parameter_server"),
            workers=parameter("workers"),
            ps=parameter("servers"),
            env=parameter("settings"),
            data=file,
        )
        judged = evaluate(model=trained.get_parameter("model"), file=file, accuracy=0.9)
        drawn >> trained >> judged

if __name__ == "__main__":
    main(parameter_server, __file__)
