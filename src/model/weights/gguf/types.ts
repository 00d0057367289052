/**
 * Tensor types of GGUF: number, name, block size and block bytes. A flat table.
 *
 * Source: `ggml.h` (enum ggml_type) and GGML_QUANT_SIZES in
 * https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/constants.py.
 */

/** Types whose values we can read. */
export const READABLE_GGUF_TYPES = [
  'F32',
  'F16',
  'BF16',
  'Q8_0',
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q5_1',
  'Q2_K',
  'Q3_K',
  'Q4_K',
  'Q5_K',
  'Q6_K',
  'IQ4_NL',
  'IQ4_XS',
  'MXFP4',
] as const
export type ReadableGgufType = (typeof READABLE_GGUF_TYPES)[number]

/** One tensor type: `blockLength` values are stored in `blockBytes` bytes. */
export interface GgufType {
  readonly name: string
  readonly blockLength: number
  readonly blockBytes: number
}

/** Every type of the format by its number, so that an unreadable one can still be named and measured. */
export const GGUF_TYPES: ReadonlyMap<number, GgufType> = new Map(
  (
    [
      [0, 'F32', 1, 4],
      [1, 'F16', 1, 2],
      [2, 'Q4_0', 32, 18],
      [3, 'Q4_1', 32, 20],
      [6, 'Q5_0', 32, 22],
      [7, 'Q5_1', 32, 24],
      [8, 'Q8_0', 32, 34],
      [9, 'Q8_1', 32, 40],
      [10, 'Q2_K', 256, 84],
      [11, 'Q3_K', 256, 110],
      [12, 'Q4_K', 256, 144],
      [13, 'Q5_K', 256, 176],
      [14, 'Q6_K', 256, 210],
      [15, 'Q8_K', 256, 292],
      [16, 'IQ2_XXS', 256, 66],
      [17, 'IQ2_XS', 256, 74],
      [18, 'IQ3_XXS', 256, 98],
      [19, 'IQ1_S', 256, 50],
      [20, 'IQ4_NL', 32, 18],
      [21, 'IQ3_S', 256, 110],
      [22, 'IQ2_S', 256, 82],
      [23, 'IQ4_XS', 256, 136],
      [24, 'I8', 1, 1],
      [25, 'I16', 1, 2],
      [26, 'I32', 1, 4],
      [27, 'I64', 1, 8],
      [28, 'F64', 1, 8],
      [29, 'IQ1_M', 256, 56],
      [30, 'BF16', 1, 2],
      [34, 'TQ1_0', 256, 54],
      [35, 'TQ2_0', 256, 66],
      [39, 'MXFP4', 32, 17],
    ] as const
  ).map(([id, name, blockLength, blockBytes]) => [id, { name, blockLength, blockBytes }]),
)

/** Whether values of this type can be read. */
export function isReadableGgufType(name: string): name is ReadableGgufType {
  return READABLE_GGUF_TYPES.some((readable) => readable === name)
}
