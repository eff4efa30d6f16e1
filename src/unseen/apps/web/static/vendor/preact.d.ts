// What the page uses of the vendored Preact.
type Cleanup = void | (() => void) | boolean | unknown;
export function h(type: unknown, attributes: unknown, ...children: unknown[]): object;
export function render(tree: unknown, place: Element): void;
export function useState<T>(first: T): [T, (next: T | ((before: T) => T)) => void];
export function useRef<T = any>(first: T): { current: any };
export function useEffect(effect: () => Cleanup, inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => Cleanup, inputs?: unknown[]): void;
export function useMemo<T>(make: () => T, inputs?: unknown[]): T;
