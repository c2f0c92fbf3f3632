"""Teaches digits to a small network on Argo Workflows: draw the data, train distributed, evaluate, export what is good.

`python pipelines/mnist_argo.py` prints the Workflow, `--compile` writes pipelines/compiled/mnist.argo.yaml.
"""

from digits_argo import CLAIM, evaluate, export, job, main, prepare, train, workflow
from digits_steps import EXPORT
from hera.workflows import DAG

INPUTS = {
    "workers": (2, "Number of workers."),
    "parameter_servers": (0, "0 = the chief and the workers train in step; else they share the variables on these."),
    "accuracy": (0.9, "Share of unseen digits that the model must tell right to be exported."),
    "examples": (10_000, "Number of digits to train with."),
    "settings": ({}, 'Variables of the training program, such as {"EPOCHS": "3"}.'),
    "claim": (CLAIM, "The PersistentVolumeClaim for data and results."),
}

with workflow("mnist", "Digits: prepare, train distributed, evaluate, export what is good enough.", INPUTS) as mnist:
    parameter = mnist.get_parameter
    with DAG(name="main"):
        drawn = prepare(examples=parameter("examples"), seed=1)
        file = drawn.get_parameter("file")
        trained = train(
            "train",
            spec=job("mnist"),
            workers=parameter("workers"),
            ps=parameter("parameter_servers"),
            env=parameter("settings"),
            data=file,
        )
        model = trained.get_parameter("model")
        judged = evaluate(model=model, file=file, accuracy=parameter("accuracy"))
        exported = export(
            model=model,
            accuracy=judged.get_parameter("accuracy_seen"),
            when=f"{judged.get_parameter('decision')} == {EXPORT}",
        )
        drawn >> trained >> judged >> exported

if __name__ == "__main__":
    main(mnist, __file__)
