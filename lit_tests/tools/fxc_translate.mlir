// RUN: fxc translate %s --to=table | filecheck %s --check-prefix=TABLE
// RUN: fxc translate %s --to=fx | filecheck %s --check-prefix=FX
// RUN: fxc translate %s --to=dot | filecheck %s --check-prefix=DOT
// RUN: fxc translate %s --to=svg | filecheck %s --check-prefix=SVG
// RUN: fxc translate - --to=dot < %s | filecheck %s --check-prefix=DOT
// RUN: fxc-opt %s --emit=dot | filecheck %s --check-prefix=DOT
// RUN: fxc-opt %s --emit=table | filecheck %s --check-prefix=TABLE
// RUN: fxc-opt %s --emit=fx | filecheck %s --check-prefix=FX

/// Weights are not needed to show a graph: none lie beside this file.
func.func @main(%w: tensor<3x2xf32> {fx.kind = "parameter", fx.name = "fc.weight"}, %x: tensor<4x2xf32>) -> tensor<4x3xf32> {
  %y = torch.aten.linear.default(%x, %w) : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
  %z = torch.aten.add.Tensor(%y, %y, alpha = 2) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %z : tensor<4x3xf32>
}

// TABLE:      opcode{{ +}}name{{ +}}target{{ +}}args{{ +}}kwargs
// TABLE-NEXT: -------------  ------
// TABLE-NEXT: placeholder    w       w                    ()       {}
// TABLE-NEXT: placeholder    x       x                    ()       {}
// TABLE-NEXT: call_function  y       aten.linear.default  (x, w)   {}
// TABLE-NEXT: call_function  z       aten.add.Tensor      (y, y)   {'alpha': 2}
// TABLE-NEXT: output         output  output               (z,)     {}

// FX:      import torch
// FX:      class GraphModule(torch.nn.Module):
// FX-NEXT: def forward(self, x: "f32[4, 2]"):
// FX:      torch.ops.aten.linear.default(x, w)
// FX:      return z

// DOT:      digraph fxc {
// DOT:      label="@main";
// DOT-NEXT: n0 [label="%w\n3x2xf32",
// DOT-NEXT: n1 [label="%x\n4x2xf32",
// DOT-NEXT: n2 [label="aten.linear\n4x3xf32",
// DOT-NEXT: n3 [label="aten.add.Tensor\n4x3xf32",
// DOT-NEXT: n4 [label="func.return",
// DOT:      n1 -> n2 [label="4x2xf32"];

// SVG: <svg xmlns="http://www.w3.org/2000/svg"
// SVG: >aten.linear</text>
// SVG: </svg>
