/**
 * 8-bit weights with one scale per output, transposed for integer products.
 */

/** A quantized matrix: `weight[row, column] * smoothing[column] ≈ quantized[column, row] * scales[row]`. */
export interface OutputQuantizedMatrix {
  /** [columns, rows] */
  readonly quantized: Int8Array
  /** [rows] */
  readonly scales: Float32Array
}

/** Rows and columns that are turned together: single bytes written a row apart take six times as long. */
const TILE = 64

/**
 * Quantizes a row-major matrix, each row (an output) by its own largest value.
 *
 * @param weight [rows, columns], finite
 * @param smoothing [columns], factors the columns are multiplied by first
 */
export function quantizeOutputs(weight: Float32Array, rows: number, smoothing: Float32Array): OutputQuantizedMatrix {
  const columns = smoothing.length
  if (weight.length !== rows * columns) throw new Error(`matrix has ${weight.length} values, not ${rows} x ${columns}`)
  const quantized = new Int8Array(rows * columns)
  const scales = new Float32Array(rows)
  const inverses = new Float64Array(rows)
  for (let row = 0; row < rows; row++) {
    const start = row * columns
    let largest = 0
    for (let k = 0; k < columns; k++) {
      const value = Math.abs((weight[start + k] as number) * (smoothing[k] as number))
      if (value > largest) largest = value
    }
    inverses[row] = largest === 0 ? 0 : 127 / largest
    scales[row] = largest / 127
  }
  const tile = new Int8Array(TILE * TILE)
  for (let firstRow = 0; firstRow < rows; firstRow += TILE) {
    const tileRows = Math.min(TILE, rows - firstRow)
    for (let first = 0; first < columns; first += TILE) {
      const tileColumns = Math.min(TILE, columns - first)
      for (let row = 0; row < tileRows; row++) {
        const inverse = inverses[firstRow + row] as number
        const start = (firstRow + row) * columns + first
        for (let k = 0; k < tileColumns; k++) {
          const value = (weight[start + k] as number) * (smoothing[first + k] as number) * inverse
          // Math.round takes four times as long, and differs for one number, just below 0.5
          tile[row * TILE + k] = Math.floor(value + 0.5)
        }
      }
      for (let k = 0; k < tileColumns; k++) {
        const start = (first + k) * rows + firstRow
        for (let row = 0; row < tileRows; row++) quantized[start + row] = tile[row * TILE + k] as number
      }
    }
  }
  return { quantized, scales }
}

/**
 * SmoothQuant's factors: sqrt(largest input / largest weight) of each channel, so that both become equally wide.
 *
 * @param inputMaxima [columns], largest magnitude of each input channel on ordinary text
 */
export function smoothingFactors(weight: Float32Array, rows: number, inputMaxima: Float32Array): Float32Array {
  const columns = inputMaxima.length
  const weightMaxima = new Float32Array(columns)
  for (let row = 0; row < rows; row++) {
    for (let k = 0; k < columns; k++) {
      const value = Math.abs(weight[row * columns + k] as number)
      if (value > (weightMaxima[k] as number)) weightMaxima[k] = value
    }
  }
  return inputMaxima.map((largest, k) => {
    const factor = Math.sqrt(largest / (weightMaxima[k] as number))
    // A channel that was never seen, or has no weights, is left as it is.
    return Number.isFinite(factor) && factor > 1e-5 ? factor : 1
  })
}
