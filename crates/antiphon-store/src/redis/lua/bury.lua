-- ARGV the id and the token. Returns whether the lease was held.
local entry = leased(ARGV[1], ARGV[2])
if not entry then
    return 0
end
bury(ARGV[1], take_off(ARGV[1], entry))
return 1
