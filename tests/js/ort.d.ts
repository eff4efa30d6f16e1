// onnxruntime-web lies beside the exported page, not in the repository.
declare module "*/ort.wasm.min.mjs" {
  export const env: { wasm: { wasmBinary: Uint8Array; numThreads: number } };
  export class Tensor {
    constructor(type: "float32", data: Float32Array, shape: number[]);
    data: Float32Array;
  }
  export const InferenceSession: {
    create(model: Uint8Array, options: object): Promise<{ run(inputs: object, outputs: string[]): Promise<Record<string, Tensor>> }>;
  };
}
