from numba.core import event, lowering, caching
depth=[0]
class L(event.Listener):
    def on_start(s,e): depth[0]+=1
    def on_end(s,e): depth[0]-=1
event.register("numba:compile",L())
for n in ("create_cpython_wrapper","create_cfunc_wrapper"):
    def mk(n):
        o=getattr(lowering.BaseLower,n)
        def f(self,*a,**k):
            if depth[0]>1: return
            return o(self,*a,**k)
        return f
    setattr(lowering.BaseLower,n,mk(n))
sv=caching.Cache.save_overload
def save(self,sig,data):
    if depth[0]>0: return
    sv(self,sig,data)
caching.Cache.save_overload=save
