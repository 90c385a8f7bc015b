import weakref, os
from numba.core import codegen, typed_passes, caching, dispatcher, event
MODE=os.environ.get("HACK","")
depth=[0]
class L(event.Listener):
    def on_start(s,e): depth[0]+=1
    def on_end(s,e): depth[0]-=1
event.register("numba:compile",L())
if MODE:
    J=codegen.JITCodeLibrary
    gp=J.get_pointer_to_function
    def get_pointer(self,name):
        if depth[0]>1:
            self._part=True
            return 0
        return gp(self,name)
    J.get_pointer_to_function=get_pointer
    ffm=J._finalize_final_module
    def fin(self):
        if getattr(self,"_part",False):
            self._finalize_dynamic_globals()
            self._finalized=True
        else: ffm(self)
    J._finalize_final_module=fin
    ofm=J._optimize_final_module
    def opt(self):
        if getattr(self,"_part",False):
            if MODE=="cheap":
                mpm,mpb=self._codegen._module_pass_manager(loop_vectorize=False,slp_vectorize=False,opt=1,cost="cheap")
                mpm.run(self._final_module,mpb)
        else: ofm(self)
    J._optimize_final_module=opt
    sv=caching.Cache.save_overload
    def save(self,sig,data):
        if getattr(data.library,"_part",False): return
        sv(self,sig,data)
    caching.Cache.save_overload=save
    if "nowrap" in MODE:
        from numba.core import lowering
        for n in ("create_cpython_wrapper","create_cfunc_wrapper"):
            def mk(n):
                o=getattr(lowering.BaseLower,n)
                def f(self,*a,**k):
                    if depth[0]>1: return
                    return o(self,*a,**k)
                return f
            setattr(lowering.BaseLower,n,mk(n))
if MODE:
    D=dispatcher.Dispatcher
    ao=D.add_overload
    def add(self,cres):
        if getattr(cres.library,"_part",False):
            self.overloads[tuple(cres.signature.args)]=cres
            return
        ao(self,cres)
    D.add_overload=add
    co=D.compile
    def comp(self,sig):
        from numba.core import sigutils
        args,_=sigutils.normalize_signature(sig)
        e=self.overloads.get(tuple(args))
        if e is not None and depth[0]==0 and getattr(e.library,"_part",False):
            del self.overloads[tuple(args)]
        return co(self,sig)
    D.compile=comp
if MODE:
    C=codegen.JITCPUCodegen
    se=C.set_env
    def set_env(self,name,env):
        if depth[0]>1: return
        se(self,name,env)
    C.set_env=set_env
