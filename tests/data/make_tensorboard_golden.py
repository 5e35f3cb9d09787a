"""Makes tensorboard_events.bin: three records as the PyPI package tensorboard (2.21) writes them.

Run with a Python that has it; the file is committed, so that tests need neither.
"""
import pathlib

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

golden = pathlib.Path(__file__).with_name("tensorboard_events.bin")
with open(golden, "wb") as file:
    writer = RecordWriter(file)
    writer.write(event_pb2.Event(wall_time=1700000000.5, file_version="brain.Event:2").SerializeToString())
    log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    writer.write(event_pb2.Event(wall_time=1700000001.25, step=300, session_log=log).SerializeToString())
    values = [
        summary_pb2.Summary.Value(tag="Train/Samples/lr", simple_value=3e-4),
        summary_pb2.Summary.Value(tag="Train/Samples/train_loss", simple_value=float("inf")),
        summary_pb2.Summary.Value(tag="é" * 70, simple_value=-0.0),
    ]
    summary = summary_pb2.Summary(value=values)
    writer.write(event_pb2.Event(wall_time=1700000002.0, step=5000000000, summary=summary).SerializeToString())
    writer.flush()
