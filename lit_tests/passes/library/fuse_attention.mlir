// RUN: fxc-opt %s --split-input-file -p "fuse-attention{gradients=false},dce" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "fuse-attention,dce" | filecheck %s --check-prefix=TRAIN

/// A product scales the scores as well as a quotient; several are one scale.
// CHECK-LABEL: func.func @main(%q
// CHECK-NEXT:    %{{.*}} = torch.aten.scaled_dot_product_attention.default(%q, %k, %v, scale = 0.5)
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %mul = torch.aten.mul.Tensor(%matmul, 2.0) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %div = torch.aten.div.Tensor(%mul, 4.0) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%div, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// A mask is added on either side, and a difference adds its negative.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.neg.default
// CHECK:         torch.aten.add.Tensor
// CHECK:         torch.aten.scaled_dot_product_attention.default
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<1x1x16x16xf32>, %m_1: tensor<16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %sub = torch.aten.sub.Tensor(%matmul, %m_1) : (tensor<1x2x16x16xf32>, tensor<16xf32>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%m_0, %sub) : (tensor<1x1x16x16xf32>, tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// A row of an added mask may be of -inf only: it stays NaN.
// CHECK-LABEL: func.func @main
// CHECK:         [[A:%.*]] = torch.aten.scaled_dot_product_attention.default
// CHECK-NEXT:    [[H:%.*]] = torch.aten.amax.default
// CHECK-NEXT:    [[Z:%.*]] = torch.aten.mul.Tensor([[H]], 0.0)
// CHECK-NEXT:    [[F:%.*]] = torch.aten.add.Tensor([[Z]], 1.0)
// CHECK-NEXT:    torch.aten.mul.Tensor([[A]], [[F]])
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<1x1x16x16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%matmul, %m_0) : (tensor<1x2x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Elements filled with the lowest number have equal probabilities where all of a row are, so no row is NaN.
// CHECK-LABEL: func.func @main
// CHECK:         [[M:%.*]] = torch.aten.where.Scalar(%{{.*}}, -3.4
// CHECK-NEXT:    torch.aten.scaled_dot_product_attention.default(%q, %k, %v, [[M]], scale = 1.0)
// CHECK-NEXT:    fx.output
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<1x1x1x16xi1>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %masked_fill = torch.aten.masked_fill.Scalar(%matmul, %m_0, -3.4028234663852886e+38) : (tensor<1x2x16x16xf32>, tensor<1x1x1x16xi1>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%masked_fill, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// In training a row that is filled entirely is computed apart: no gradient reaches the scores.
// CHECK-LABEL: func.func @main
// TRAIN-LABEL: func.func @main
// TRAIN:         torch.aten.mean.dim(%v
// TRAIN:         torch.aten.where.self
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xi1>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %masked_fill = torch.aten.masked_fill.Scalar(%matmul, %m_0, -inf) : (tensor<1x2x16x16xf32>, tensor<16x16xi1>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%masked_fill, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// A mask that is computed from constants, and blocks what follows each query.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.scaled_dot_product_attention.default(%q, %k, %v, scale = 1.0, is_causal = true)
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %ones = torch.aten.ones.default([16, 16], dtype = torch.bool, device = device("cpu"), pin_memory = false) : () -> tensor<16x16xi1>
  %tril = torch.aten.tril.default(%ones) : (tensor<16x16xi1>) -> tensor<16x16xi1>
  %where = torch.aten.where.ScalarOther(%tril, %matmul, -inf) : (tensor<16x16xi1>, tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%where, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Half precision with a softmax in float32; the mask is not rounded.
// CHECK-LABEL: func.func @main
// CHECK:         [[M:%.*]] = torch.aten.to.dtype({{.*}}, torch.float32)
// CHECK:         torch.aten.scaled_dot_product_attention.default
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf16>, %k: tensor<1x2x16x8xf16>, %v: tensor<1x2x16x8xf16>, %m_0: tensor<1x16x16xf16>) -> tensor<1x2x16x8xf16> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf16>) -> tensor<1x2x8x16xf16, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf16>, tensor<1x2x8x16xf16, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf16>
  %add = torch.aten.add.Tensor(%matmul, %m_0) : (tensor<1x2x16x16xf16>, tensor<1x16x16xf16>) -> tensor<1x2x16x16xf16>
  %softmax = torch.aten.softmax.int(%add, -1, torch.float32) : (tensor<1x2x16x16xf16>) -> tensor<1x2x16x16xf32>
  %to = torch.aten.to.dtype(%softmax, torch.float16) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf16>
  %matmul_1 = torch.aten.matmul.default(%to, %v) : (tensor<1x2x16x16xf16>, tensor<1x2x16x8xf16>) -> tensor<1x2x16x8xf16>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf16>) -> ()
}

// -----

/// Heads of keys that are repeated.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.scaled_dot_product_attention.default(%q, %k, %v, scale = 1.0, enable_gqa = true)
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x6x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x6x16x8xf32> {
  %unsqueeze = torch.aten.unsqueeze.default(%k, 2) : (tensor<1x2x16x8xf32>) -> tensor<1x2x1x16x8xf32>
  %expand = torch.aten.expand.default(%unsqueeze, [1, 2, 3, 16, 8]) : (tensor<1x2x1x16x8xf32>) -> tensor<1x2x3x16x8xf32, #torch.meta<strides = [256, 128, 0, 8, 1]>>
  %reshape = torch.aten.reshape.default(%expand, [1, 6, 16, 8]) : (tensor<1x2x3x16x8xf32, #torch.meta<strides = [256, 128, 0, 8, 1]>>) -> tensor<1x6x16x8xf32>
  %transpose = torch.aten.transpose.int(%reshape, 2, 3) : (tensor<1x6x16x8xf32>) -> tensor<1x6x8x16xf32, #torch.meta<strides = [768, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x6x16x8xf32>, tensor<1x6x8x16xf32, #torch.meta<strides = [768, 128, 1, 8]>>) -> tensor<1x6x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x6x16x16xf32>) -> tensor<1x6x16x16xf32>
  %unsqueeze_1 = torch.aten.unsqueeze.default(%v, 2) : (tensor<1x2x16x8xf32>) -> tensor<1x2x1x16x8xf32>
  %expand_1 = torch.aten.expand.default(%unsqueeze_1, [1, 2, 3, 16, 8]) : (tensor<1x2x1x16x8xf32>) -> tensor<1x2x3x16x8xf32, #torch.meta<strides = [256, 128, 0, 8, 1]>>
  %reshape_1 = torch.aten.reshape.default(%expand_1, [1, 6, 16, 8]) : (tensor<1x2x3x16x8xf32, #torch.meta<strides = [256, 128, 0, 8, 1]>>) -> tensor<1x6x16x8xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %reshape_1) : (tensor<1x6x16x16xf32>, tensor<1x6x16x8xf32>) -> tensor<1x6x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x6x16x8xf32>) -> ()
}

// -----

/// An einsum with its permutations; the permuted width is copied.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.scaled_dot_product_attention.default
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<2x16x8xf32>, %k: tensor<2x8x16xf32>, %v: tensor<2x16x8xf32>) -> tensor<2x16x8xf32> {
  %einsum = torch.aten.einsum.default("hid,hdj->hij", [%q, %k]) : (tensor<2x16x8xf32>, tensor<2x8x16xf32>) -> tensor<2x16x16xf32>
  %softmax = torch.aten.softmax.int(%einsum, -1) : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
  %einsum_1 = torch.aten.einsum.default("hij,hjd->hid", [%softmax, %v]) : (tensor<2x16x16xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  fx.output((%einsum_1,)) : (tensor<2x16x8xf32>) -> ()
}

// -----

/// Keys that are permuted to another order than transposed ones are read in that order (pytorch#195320).
// CHECK-LABEL: func.func @main
// CHECK:         [[K:%.*]] = torch.aten.permute.default(%k, [0, 2, 1, 3])
// CHECK-NEXT:    torch.aten.scaled_dot_product_attention.default(%q, [[K]], %v
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x16x16x8xf32>, %k: tensor<1x16x16x8xf32>, %v: tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32> {
  %permute = torch.aten.permute.default(%k, [0, 2, 3, 1]) : (tensor<1x16x16x8xf32>) -> tensor<1x16x8x16xf32, #torch.meta<strides = [2048, 8, 1, 128]>>
  %matmul = torch.aten.matmul.default(%q, %permute) : (tensor<1x16x16x8xf32>, tensor<1x16x8x16xf32, #torch.meta<strides = [2048, 8, 1, 128]>>) -> tensor<1x16x16x16xf32>
  %mul = torch.aten.mul.Tensor(%matmul, 0.25) : (tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %softmax = torch.aten.softmax.int(%mul, -1) : (tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x16x16x16xf32>, tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x16x16x8xf32>) -> ()
}

// -----

/// Not where the probabilities are returned, too.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>) {
  %transpose = torch.aten.transpose.int(%k, 2, 3) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1, %softmax)) : (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>) -> ()
}

// -----

/// Not where the scores are returned, too.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>) {
  %transpose = torch.aten.transpose.int(%k, 2, 3) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1, %matmul)) : (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>) -> ()
}

// -----

/// Not along another dimension.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -2) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with dropout that samples: the random numbers would be others.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %dropout = torch.aten.dropout.default(%softmax, 0.5, true) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%dropout, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not where masked scores are scaled.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%matmul, %m_0) : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %mul = torch.aten.mul.Tensor(%add, 2.0) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%mul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with a negative scale.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %mul = torch.aten.mul.Tensor(%matmul, -2.0) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%mul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not where the scale is no number.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %mul = torch.aten.mul.Tensor(%matmul, %m_0) : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%mul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with a fill that scores may be below.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xi1>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %masked_fill = torch.aten.masked_fill.Scalar(%matmul, %m_0, -10000.0) : (tensor<1x2x16x16xf32>, tensor<16x16xi1>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%masked_fill, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not where masked scores are rounded.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf16>, %k: tensor<1x2x16x8xf16>, %v: tensor<1x2x16x8xf16>, %m_0: tensor<16x16xf32>) -> tensor<1x2x16x8xf16> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf16>) -> tensor<1x2x8x16xf16, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf16>, tensor<1x2x8x16xf16, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf16>
  %to = torch.aten.to.dtype(%matmul, torch.float32) : (tensor<1x2x16x16xf16>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%to, %m_0) : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %to_1 = torch.aten.to.dtype(%add, torch.float16) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf16>
  %softmax = torch.aten.softmax.int(%to_1, -1) : (tensor<1x2x16x16xf16>) -> tensor<1x2x16x16xf16>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf16>, tensor<1x2x16x8xf16>) -> tensor<1x2x16x8xf16>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf16>) -> ()
}

// -----

/// Not with alpha.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%matmul, %m_0, alpha = 2) : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with other operators on the scores.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %tanh = torch.aten.tanh.default(%matmul) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%tanh, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with fewer keys than a vector has lanes, where the operator loses NaN.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x8x8xf32>, %v: tensor<1x2x8x8xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32, #torch.meta<strides = [128, 64, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x8xf32, #torch.meta<strides = [128, 64, 1, 8]>>) -> tensor<1x2x16x8xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not where keys and values have different widths.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x4xf32>) -> ()
}

// -----

/// Not in integers or complex numbers.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xi64>, %k: tensor<1x2x16x8xi64>, %v: tensor<1x2x16x8xi64>) -> tensor<1x2x16x8xi64> {
  %transpose = torch.aten.transpose.int(%k, 2, 3) : (tensor<1x2x16x8xi64>) -> tensor<1x2x8x16xi64, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xi64>, tensor<1x2x8x16xi64, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xi64>
  %to = torch.aten.to.dtype(%matmul, torch.float32) : (tensor<1x2x16x16xi64>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%to, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %to_1 = torch.aten.to.dtype(%softmax, torch.int64) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xi64>
  %matmul_1 = torch.aten.matmul.default(%to_1, %v) : (tensor<1x2x16x16xi64>, tensor<1x2x16x8xi64>) -> tensor<1x2x16x8xi64>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xi64>) -> ()
}

// -----

/// Not on another device.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf32, #torch.meta<device = "meta">>, %k: tensor<1x2x16x8xf32, #torch.meta<device = "meta">>, %v: tensor<1x2x16x8xf32, #torch.meta<device = "meta">>) -> tensor<1x2x16x8xf32, #torch.meta<device = "meta">> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32, #torch.meta<device = "meta">>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8], device = "meta">>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32, #torch.meta<device = "meta">>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8], device = "meta">>) -> tensor<1x2x16x16xf32, #torch.meta<device = "meta">>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32, #torch.meta<device = "meta">>) -> tensor<1x2x16x16xf32, #torch.meta<device = "meta">>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32, #torch.meta<device = "meta">>, tensor<1x2x16x8xf32, #torch.meta<device = "meta">>) -> tensor<1x2x16x8xf32, #torch.meta<device = "meta">>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32, #torch.meta<device = "meta">>) -> ()
}

// -----

/// Not in double precision with probabilities in single.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
func.func @main(%q: tensor<1x2x16x8xf64>, %k: tensor<1x2x16x8xf64>, %v: tensor<1x2x16x8xf64>) -> tensor<1x2x16x8xf64> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf64>) -> tensor<1x2x8x16xf64, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf64>, tensor<1x2x8x16xf64, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf64>
  %to = torch.aten.to.dtype(%matmul, torch.float32) : (tensor<1x2x16x16xf64>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%to, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %to_1 = torch.aten.to.dtype(%softmax, torch.float64) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf64>
  %matmul_1 = torch.aten.matmul.default(%to_1, %v) : (tensor<1x2x16x16xf64>, tensor<1x2x16x8xf64>) -> tensor<1x2x16x8xf64>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf64>) -> ()
}

// -----

/// Not where a mask needs a gradient, for which PyTorch has no fused kernel.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.scaled_dot_product_attention.default
// TRAIN-LABEL: func.func @main
// TRAIN-NOT:     scaled_dot_product_attention
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<1x1x16x16xf32>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%matmul, %m_0) : (tensor<1x2x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not in training where a row may be filled and has an added mask: its gradients cannot be reproduced.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.scaled_dot_product_attention.default
// TRAIN-LABEL: func.func @main
// TRAIN-NOT:     scaled_dot_product_attention
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xi1>, %m_1: tensor<16x16xi64>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %masked_fill = torch.aten.masked_fill.Scalar(%matmul, %m_0, -3.4028234663852886e+38) : (tensor<1x2x16x16xf32>, tensor<16x16xi1>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%masked_fill, %m_1) : (tensor<1x2x16x16xf32>, tensor<16x16xi64>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not with another mask beside a fill that scores change in a sum: a row may be masked by both.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
// TRAIN-NOT:     scaled_dot_product_attention
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m_0: tensor<16x16xi1>, %m_1: tensor<16x16xi64>) -> tensor<1x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %masked_fill = torch.aten.masked_fill.Scalar(%matmul, %m_0, -1.0e+30) : (tensor<1x2x16x16xf32>, tensor<16x16xi1>) -> tensor<1x2x16x16xf32>
  %add = torch.aten.add.Tensor(%masked_fill, %m_1) : (tensor<1x2x16x16xf32>, tensor<16x16xi64>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%add, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<1x2x16x8xf32>) -> ()
}

// -----

/// Not where the values have leading sizes that the probabilities lack.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scaled_dot_product_attention
// TRAIN-LABEL: func.func @main
// TRAIN-NOT:     scaled_dot_product_attention
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<3x2x16x8xf32>) -> tensor<3x2x16x8xf32> {
  %transpose = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>
  %matmul = torch.aten.matmul.default(%q, %transpose) : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32, #torch.meta<strides = [256, 128, 1, 8]>>) -> tensor<1x2x16x16xf32>
  %softmax = torch.aten.softmax.int(%matmul, -1) : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %matmul_1 = torch.aten.matmul.default(%softmax, %v) : (tensor<1x2x16x16xf32>, tensor<3x2x16x8xf32>) -> tensor<3x2x16x8xf32>
  fx.output((%matmul_1,)) : (tensor<3x2x16x8xf32>) -> ()
}

// -----

/// What reads the probabilities returns two results.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.topk.default
// TRAIN-LABEL: func.func @main
func.func @main(%x: tensor<16x16xf32>) -> tensor<16x2xf32> {
  %softmax = torch.aten.softmax.int(%x, -1) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %top, %places = torch.aten.topk.default(%softmax, 2) : (tensor<16x16xf32>) -> (tensor<16x2xf32>, tensor<16x2xi64>)
  fx.output((%top,)) : (tensor<16x2xf32>) -> ()
}

// -----

/// An unknown number of keys may be less than 16, for which the fused operator loses a NaN; one that is at least 16 may not.
// CHECK-LABEL: func.func @few
// CHECK-NOT:     scaled_dot_product_attention
// CHECK-LABEL: func.func @many
// CHECK:         scaled_dot_product_attention
// TRAIN-LABEL: func.func @few
builtin.module attributes {torch.symbols = {s0 = {hint = 32 : i64, min = 2 : i64}, s1 = {hint = 32 : i64, min = 16 : i64}}} {
  func.func @few(%q: tensor<2x16x8xf32>, %k: tensor<2x8x?xf32, #torch.meta<sizes = [2, 8, "s0"]>>, %v: tensor<2x?x8xf32, #torch.meta<sizes = [2, "s0", 8]>>) {
    %s = torch.aten.matmul.default(%q, %k) : (tensor<2x16x8xf32>, tensor<2x8x?xf32, #torch.meta<sizes = [2, 8, "s0"]>>) -> tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s0"]>>
    %p = torch.aten.softmax.int(%s, -1) : (tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s0"]>>) -> tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s0"]>>
    %o = torch.aten.matmul.default(%p, %v) : (tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s0"]>>, tensor<2x?x8xf32, #torch.meta<sizes = [2, "s0", 8]>>) -> tensor<2x16x8xf32>
    fx.output(%o) : (tensor<2x16x8xf32>) -> ()
  }
  func.func @many(%q: tensor<2x16x8xf32>, %k: tensor<2x8x?xf32, #torch.meta<sizes = [2, 8, "s1"]>>, %v: tensor<2x?x8xf32, #torch.meta<sizes = [2, "s1", 8]>>) {
    %s = torch.aten.matmul.default(%q, %k) : (tensor<2x16x8xf32>, tensor<2x8x?xf32, #torch.meta<sizes = [2, 8, "s1"]>>) -> tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s1"]>>
    %p = torch.aten.softmax.int(%s, -1) : (tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s1"]>>) -> tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s1"]>>
    %o = torch.aten.matmul.default(%p, %v) : (tensor<2x16x?xf32, #torch.meta<sizes = [2, 16, "s1"]>>, tensor<2x?x8xf32, #torch.meta<sizes = [2, "s1", 8]>>) -> tensor<2x16x8xf32>
    fx.output(%o) : (tensor<2x16x8xf32>) -> ()
  }
}

// -----

/// The operator that PyTorch calls where a mask requires a gradient, where none is needed; not with a mask of its dropout.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %o = torch.aten.scaled_dot_product_attention.default(%q, %k, %v, %m, scale = 0.5)
// CHECK-NEXT:    torch.aten._scaled_dot_product_attention_math.default
// TRAIN-LABEL: func.func @main
// TRAIN-NOT:     torch.aten.scaled_dot_product_attention
func.func @main(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x16x8xf32>, %v: tensor<1x2x16x8xf32>, %m: tensor<16x16xf32>, %d: tensor<1x2x16x16xi1>) {
  %o, %p = torch.aten._scaled_dot_product_attention_math.default(%q, %k, %v, %m, scale = 0.5) : (tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>, tensor<16x16xf32>) -> (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>)
  %o_1, %p_1 = torch.aten._scaled_dot_product_attention_math.default(%q, %k, %v, %m, 0.5, false, %d) : (tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>, tensor<16x16xf32>, tensor<1x2x16x16xi1>) -> (tensor<1x2x16x8xf32>, tensor<1x2x16x16xf32>)
  fx.output((%o, %o_1)) : (tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>) -> ()
}
