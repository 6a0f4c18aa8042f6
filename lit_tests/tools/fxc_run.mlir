// RUN: fxc run %s | filecheck %s
// RUN: fxc run %s --seed 7 -p cse,dce -o %t.safetensors | filecheck %s
// RUN: not fxc run %s -p dec 2>&1 | filecheck %s --check-prefix=PASS
// RUN: fxc report %s | filecheck %s --check-prefix=REPORT

/// Inputs are made up from types, symbols have their hints; what the program writes is shown, and written to copies only.
builtin.module attributes {torch.symbols = {s0 = {hint = 3 : i64, min = 2 : i64}}} {
  func.func @main(%x: tensor<?x2xf32, #torch.meta<sizes = ["s0", 2]>> {fx.kind = "input", fx.name = "x"}) -> tensor<f32> {
    %z = torch.aten.zero_.default(%x) : (tensor<?x2xf32, #torch.meta<sizes = ["s0", 2]>>) -> tensor<?x2xf32, #torch.meta<sizes = ["s0", 2]>>
    %s = torch.aten.sum.default(%z) : (tensor<?x2xf32, #torch.meta<sizes = ["s0", 2]>>) -> tensor<f32>
    func.return %s : tensor<f32>
  }
}

// CHECK:      result: tensor<f32>
// CHECK-NEXT: shape (), dtype float32, mean 0, min 0, max 0, first 0
// CHECK-NEXT: new value of x: tensor<3x2xf32>
// CHECK-NEXT: shape (3, 2), dtype float32, mean 0, min 0, max 0, first 0 0 0 0 0 0

// PASS:      error: there is no pass or pipeline dec
// PASS-NEXT: hint: did you mean dce

// REPORT:      functions: 1
// REPORT-NEXT: @main
// REPORT-NEXT: input x: tensor<?x2xf32, #torch.meta<sizes = ["s0", 2]>>
// REPORT-NEXT: result 0: tensor<f32>
// REPORT-NEXT: symbols:
// REPORT-NEXT: s0: hint 3, min 2
// REPORT-NEXT: ops: 3, of which 0 random, 1 may write memory
