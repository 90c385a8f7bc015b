/* A figure is a link to itself, where it can be enlarged. On a narrow screen one that is much wider than the screen keeps a
   width at which it can be read, and scrolls. */
document.addEventListener("DOMContentLoaded", () => {
  const figures = document.querySelectorAll(".bd-article img:not(.sphx-glr-thumbcontainer img, .avatar)");
  for (const image of figures) {
    if (image.closest("a, button, .sphx-glr-thumbcontainer")) continue;
    const link = document.createElement("a");
    link.href = image.currentSrc || image.src;
    link.className = "figure-link";
    link.setAttribute("aria-label", `${image.alt || "The figure"}, at full size`);
    image.replaceWith(link);
    link.append(image);
    const fit = () => {
      const room = link.parentElement.clientWidth;
      const broad = window.innerWidth < 600 && image.naturalWidth > 1.9 * room;
      link.classList.toggle("broad", broad);
      image.style.width = broad ? `${Math.min(image.naturalWidth, 2 * room)}px` : "";
    };
    if (image.complete) fit();
    image.addEventListener("load", fit);
    window.addEventListener("resize", fit);
  }
});
