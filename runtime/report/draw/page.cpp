#include "runtime/report/draw/page.h"

#include <fmt/format.h>

#include "runtime/report/draw/svg.h"

namespace zrt::runtime::draw {
namespace {

constexpr const char* style = R"(
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--soft:#444;--ground:#f4f4f4;--rule:#ddd;--alarm:#c00}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181818;--soft:#aaa;--ground:#262626;--rule:#444;--alarm:#f66}}
body{font:14px sans-serif;margin:16px;max-width:1180px;color:var(--ink);background:var(--paper)}
h1{font-size:20px}h2{font-size:15px;margin:18px 0 2px}
table{border-collapse:collapse;margin:8px 0}td,th{padding:2px 10px;border-bottom:1px solid var(--rule);text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.legend{margin:0 0 2px}.legend span{margin-right:12px;white-space:nowrap}
.legend i{display:inline-block;width:10px;height:10px;margin-right:4px}
svg{display:block;width:100%}svg text{font:11px sans-serif;fill:var(--soft)}
.notes{padding:8px 8px 8px 24px;background:var(--ground)}.bad{color:var(--alarm)}
.ground{fill:var(--ground)}.line{fill:none;stroke-width:1.5;stroke-linecap:round;vector-effect:non-scaling-stroke}
.dots{stroke-width:5}summary h2{display:inline}details{margin:8px 0}pre{white-space:pre-wrap}
.limit{fill:none;stroke:var(--alarm);stroke-width:1.5;stroke-dasharray:6 4;vector-effect:non-scaling-stroke}
#tip{position:fixed;display:none;pointer-events:none;white-space:pre;background:var(--ink);color:var(--paper);padding:4px 8px;
border-radius:3px;font-size:12px;z-index:1}
)";

// Charts with the same axis zoom together. A value chart shows the values at the last x before the pointer.
constexpr const char* script = R"(
const tip=document.getElementById('tip'),charts=[...document.querySelectorAll('svg.chart')];
const bytes=v=>{for(const u of ['bytes','KiB','MiB','GiB','TiB','PiB']){if(v<1024)return v.toFixed(u=='bytes'?0:2)+' '+u;v/=1024}
return v.toFixed(0)+' EiB'};
const seconds=v=>{const a=Math.abs(v);return a==0||a>=1?+v.toPrecision(4)+' s':a>=1e-3?+(v*1e3).toPrecision(4)+' ms':
+(v*1e6).toPrecision(4)+' µs'};
const show=(v,u)=>v===null?'none':u=='bytes'?bytes(v):u=='seconds'?seconds(v):String(+v.toPrecision(6));
for(const c of charts){
 const plot=c.querySelector('svg.plot'),from=+c.dataset.from,to=+c.dataset.to;
 const width=plot.viewBox.baseVal.width,height=plot.viewBox.baseVal.height;
 const values=c.dataset.values?JSON.parse(c.dataset.values):null;
 c.view=[0,1];
 c.look=(a,b)=>{c.view=[a,b];plot.setAttribute('viewBox',`${a*width} 0 ${(b-a)*width} ${height}`);
  c.querySelectorAll('.tick').forEach((t,i,all)=>{
   t.textContent=show(from+(to-from)*(a+(b-a)*i/(all.length-1)),c.dataset.unit)})};
 const at=e=>{const r=plot.querySelector('.ground').getBoundingClientRect();
  return Math.min(1,Math.max(0,(e.clientX-r.left)/r.width))};
 plot.addEventListener('mousemove',e=>{
  let text=e.target.dataset.t||'';
  if(!text&&values&&values.x.length){
   const x=from+(to-from)*at(e);
   let i=0;for(let high=values.x.length;high-i>1;){const mid=(i+high)>>1;values.x[mid]<=x?i=mid:high=mid}
   const rows=values.series.filter(s=>s.y[i]).map(s=>s.name+': '+show(s.y[i],values.unit));
   text=[show(values.x[i],c.dataset.unit)+(values.labels[i]?'  '+values.labels[i]:''),...rows].join('\n')}
  tip.textContent=text;tip.style.display=text?'block':'none';
  tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';
  tip.style.top=Math.min(e.clientY+14,innerHeight-tip.offsetHeight-8)+'px'});
 plot.addEventListener('mouseleave',()=>tip.style.display='none');
 const same=()=>charts.filter(o=>o.dataset.from==c.dataset.from&&o.dataset.to==c.dataset.to);
 plot.addEventListener('wheel',e=>{e.preventDefault();
  const [a,b]=c.view,middle=at(e),size=Math.min(1,(b-a)*(e.deltaY<0?0.8:1.25));
  let start=middle-(middle-a)*size/(b-a);start=Math.min(1-size,Math.max(0,start));
  same().forEach(o=>o.look(start,start+size))},{passive:false});
 plot.addEventListener('dblclick',()=>same().forEach(o=>o.look(0,1)))}
)";

}  // namespace

std::string page(std::string_view title, const std::vector<std::string>& parts) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{2}\n"
      // Nothing is fetched, whatever a name in the page says.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>{0}</title><style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n",
      escaped(title), style, page_mark);
  for (const std::string& part : parts) text += part;
  return text + fmt::format("<div id=\"tip\"></div><script>{}</script></body></html>\n", script);
}

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table>";
  if (!head.empty()) text += "<tr>";
  for (const std::string& cell : head) text += fmt::format("<th>{}</th>", escaped(cell));
  if (!head.empty()) text += "</tr>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (const std::string& cell : row) {
      const bool number = !head.empty() && !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
      text += fmt::format("<td{}>{}</td>", number ? " class=\"n\"" : "", escaped(cell));
    }
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

}  // namespace zrt::runtime::draw
