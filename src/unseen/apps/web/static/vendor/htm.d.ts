// What the page uses of the vendored htm.
type Template = (parts: TemplateStringsArray, ...values: unknown[]) => any;
declare const htm: { bind(h: (type: unknown, attributes: any, ...children: unknown[]) => unknown): Template };
export default htm;
