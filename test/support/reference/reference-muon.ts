/**
 * Muon in float64 from its definition, in the order of operations of `torch.optim.Muon` with Nesterov momentum and the scale
 * `match_rms_adamw`; and singular values to judge its results by. Matrices are arrays of rows.
 */

export type Matrix = readonly (readonly number[])[]

/** Momentum and weights of one matrix. */
export interface ReferenceMuon {
  weights: Matrix
  buffer: Matrix
}

/** One step: buffer ← lerp(buffer, gradient, 1 − μ); update = lerp(gradient, buffer, μ); decay; minus the scaled orthogonal one. */
export function referenceMuonStep(
  state: ReferenceMuon,
  gradient: Matrix,
  options: { readonly learningRate: number; readonly weightDecay: number; readonly momentum?: number },
): void {
  const { learningRate, weightDecay, momentum = 0.95 } = options
  state.buffer = zip(state.buffer, gradient, (buffer, g) => buffer + (1 - momentum) * (g - buffer))
  const update = zip(gradient, state.buffer, (g, buffer) => g + momentum * (buffer - g))
  const orthogonal = referenceOrthogonalize(update)
  state.weights = zip(state.weights, orthogonal, (w, o) => w * (1 - learningRate * weightDecay) - learningRate * o)
}

/** Five Newton-Schulz steps on the wide side, times 0.2·sqrt(max(rows, columns)). */
export function referenceOrthogonalize(matrix: Matrix): Matrix {
  const columns = matrix[0]!.length
  const isTall = matrix.length > columns
  const norm = Math.max(Math.hypot(...matrix.flat()), 1e-7)
  let x = (isTall ? transpose(matrix) : matrix).map((row) => row.map((value) => value / norm))
  for (let step = 0; step < 5; step++) {
    const gram = multiply(x, transpose(x))
    const cubic = multiply(gram, x)
    const quintic = multiply(gram, cubic)
    x = x.map((row, i) => row.map((value, j) => 3.4445 * value - 4.775 * cubic[i]![j]! + 2.0315 * quintic[i]![j]!))
  }
  const scale = 0.2 * Math.sqrt(Math.max(matrix.length, columns))
  return (isTall ? transpose(x) : x).map((row) => row.map((value) => value * scale))
}

/** Singular values by one-sided Jacobi rotations (Golub and Van Loan, Matrix Computations, section 8.6.3). */
export function singularValues(matrix: Matrix): number[] {
  const vectors = (matrix.length > matrix[0]!.length ? transpose(matrix) : matrix).map((row) => [...row])
  for (let sweep = 0; sweep < 30; sweep++) {
    for (let p = 0; p < vectors.length; p++) {
      for (let q = p + 1; q < vectors.length; q++) rotate(vectors[p]!, vectors[q]!)
    }
  }
  return vectors.map((vector) => Math.hypot(...vector))
}

/** Makes two vectors orthogonal, in place. */
function rotate(a: number[], b: number[]): void {
  const [alpha, beta, gamma] = [dot(a, a), dot(b, b), dot(a, b)]
  if (Math.abs(gamma) <= 1e-15 * Math.sqrt(alpha * beta)) return
  const zeta = (beta - alpha) / (2 * gamma)
  const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta))
  const cosine = 1 / Math.sqrt(1 + tangent * tangent)
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i]!, b[i]!]
    a[i] = cosine * (x - tangent * y)
    b[i] = cosine * (y + tangent * x)
  }
}

function multiply(a: Matrix, b: Matrix): Matrix {
  const columns = transpose(b)
  return a.map((row) => columns.map((column) => dot(row, column)))
}

function transpose(a: Matrix): number[][] {
  return a[0]!.map((_, column) => a.map((row) => row[column]!))
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0)
}

function zip(a: Matrix, b: Matrix, combine: (x: number, y: number) => number): Matrix {
  return a.map((row, i) => row.map((value, j) => combine(value, b[i]![j]!)))
}
