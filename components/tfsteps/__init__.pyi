from tfsteps.api import train_function as train_function

__version__: str
