#!lua
-- Settles into how many buckets the records of a space go, and says how the server is set up.
-- KEYS[1] the space; ARGV[1] the number of buckets wanted.
redis.call('HSETNX', KEYS[1], 'buckets', ARGV[1])
local function said(section, name)
    return string.match(redis.call('INFO', section), name .. ':([^\r\n]*)') or ''
end
return {
    redis.call('HGET', KEYS[1], 'buckets'),
    said('cluster', 'cluster_enabled'),
    said('memory', 'maxmemory_policy'),
    said('persistence', 'aof_enabled'),
}
