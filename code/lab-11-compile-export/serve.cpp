// Lab 11: runs an AOTInductor package, whose path is the argument, without Python and without the model's code.
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: serve PACKAGE.pt2\n";
    return 2;
  }
  torch::inductor::AOTIModelPackageLoader model(arguments[1]);
  const at::Tensor tokens = at::arange(8, at::kLong).unsqueeze(0);  // [1, T]
  const at::Tensor logits = model.run({tokens})[0];                 // [1, T, V]
  std::cout << "scores of shape " << logits.sizes() << ", sum " << logits.sum().item<double>() << "\n";
  return 0;
}
