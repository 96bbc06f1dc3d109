// s3rver DIR PORT BUCKET...: fixes its listing of common prefixes, which leaves out prefixes whose objects are more than one level deeper.
import S3rver from "s3rver";

const [directory, port, ...buckets] = process.argv.slice(2);
const server = new S3rver({
  ...{ address: "127.0.0.1", port: Number(port), silent: true, directory, vhostBuckets: false },
  configureBuckets: buckets.map((name) => ({ name })),
});
const plain = server.store.listObjects.bind(server.store);
server.store.listObjects = async (bucket, { delimiter, maxKeys, ...options }) => {
  const { objects } = await plain(bucket, options);
  const { prefix = "" } = options;
  const out = { objects: [], commonPrefixes: [], isTruncated: false };
  for (const object of objects) {
    const end = delimiter ? object.key.indexOf(delimiter, prefix.length) : -1;
    const common = end < 0 ? null : object.key.slice(0, end + 1);
    if (common !== null && out.commonPrefixes.at(-1) === common) continue;
    if (out.objects.length + out.commonPrefixes.length >= maxKeys) {
      out.isTruncated = true;
      break;
    }
    if (common === null) out.objects.push(object);
    else out.commonPrefixes.push(common);
  }
  return out;
};
await server.run();
