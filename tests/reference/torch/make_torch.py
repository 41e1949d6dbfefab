#!/usr/bin/env python3
"""Make the files that tests/unit/torch/test_torch.c reads: torch.save's own.

    tests/reference/torch/make_torch.py     (torch 2.15, numpy 2)

  zip2.pt to zip5.pt    the archive, pickled by protocols 2 to 5
  stream.pt             the older stream
  kinds.pt              the archive: what stands beside tensors

The first five have the same tensors, the numbers i/4 - 3 of i = 0, 1, 2 …, in
every type and with strides of many kinds; an int8 of fp32's file is its own.
"""
import argparse
import collections
import os

import numpy
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def numbers(*shape):
    n = 1
    for dim in shape:
        n *= dim
    return (torch.arange(n, dtype=torch.float32) / 4 - 3).view(shape)


def tensors():
    w = numbers(6, 5)
    d = collections.OrderedDict()
    d["plain"] = w
    d["transposed"] = w.t()
    d["slices"] = w[1:5:2, 1:4]
    d["permuted"] = numbers(2, 3, 4, 5).permute(2, 0, 3, 1)
    d["expanded"] = w[2:3, 1:4].expand(3, 4, 3)
    d["zero"] = torch.zeros(0, 3)
    d["number"] = torch.tensor(2.5)
    d["parameter"] = torch.nn.Parameter(w[4])
    d["fp64"] = w.double()
    d["bf16"] = w.bfloat16()
    d["fp16"] = w.half()
    for name in ("int8", "int16", "int32", "int64"):
        d[name] = torch.arange(-4, 20).to(getattr(torch, name))
    for name in ("uint8", "uint16", "uint32", "uint64"):
        d[name] = torch.arange(24).to(getattr(torch, name))
    d["bool"] = torch.tensor([True, False, True])
    d["fp8_e4m3"] = w.to(torch.float8_e4m3fn)
    d["fp8_e5m2"] = w.to(torch.float8_e5m2)
    return d


def kinds():
    linear = torch.nn.Linear(2, 2)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    return {
        "none": None,
        "bools": [True, False],
        "ints": [0, 255, 256, 65535, 65536, -1, -(2**31), 2**40, 2**63 - 1],
        "big": [2**63, -(2**70), 2**64 - 1],
        "real": 0.1,
        "text": "é\u4e16",
        "bytes": b"\x00\xff\x80abc",
        "bytearray": bytearray(b"abc"),
        "tuple": (1, (2,), ()),
        "set": {7},
        "frozenset": frozenset([8]),
        "namespace": argparse.Namespace(layers=2, name="x"),
        "default": collections.defaultdict(list, {1: [2]}),
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "array": numpy.arange(12, dtype=numpy.float32).reshape(3, 4),
        "fortran": numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
        "scalars": [numpy.float64(3.25), numpy.int64(7), numpy.bool_(True)],
        "module": linear.state_dict(),
        "by number": {0: {"step": torch.tensor(3.0)}, 1: "one", "1": "text"},
        "object": slice(1, 2, None),
    }


def main():
    for protocol in range(2, 6):
        path = os.path.join(HERE, f"zip{protocol}.pt")
        torch.save(tensors(), path, pickle_protocol=protocol)
    torch.save(tensors(), os.path.join(HERE, "stream.pt"),
               _use_new_zipfile_serialization=False)
    torch.save(kinds(), os.path.join(HERE, "kinds.pt"))


main()
